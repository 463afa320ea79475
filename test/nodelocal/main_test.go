//go:build linux

package nodelocal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asListener has this test's binary hold a UDP port, as another user, until it is
// killed.
const asListener = "FIREBREAK_TEST_LISTEN"

func TestMain(m *testing.M) {
	if at := os.Getenv(asListener); at != "" {
		if err := listen(at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if path, err := built(); err == nil && path != "" {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// starts are commands that are to end with this process. The kernel means the
// thread that started them, so one does it for all; the threads of within end.
var starts = sync.OnceValue(func() chan func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range todo {
			f()
		}
	}()
	return todo
})

func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	done := make(chan error)
	starts() <- func() { done <- cmd.Start() }
	return <-done
}

// wanted says that a test asked for the program.
var wanted bool

// built is the server, built once.
var built = sync.OnceValues(func() (string, error) {
	if !wanted {
		return "", nil
	}
	dir, err := os.MkdirTemp("", "firebreak-nodelocal")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "coredns")
	cmd := exec.Command("go", "build", "-o", path, "./build/coredns")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func program(t *testing.T) string {
	t.Helper()
	wanted = true
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// until waits for what is to become true, and says how long it took.
func until(t *testing.T, within time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > within {
			t.Fatalf("not within %s: %s", within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(began)
}

// unique is a short name that no other run has.
func unique() string {
	return strconv.FormatInt(int64(os.Getpid())*1000+time.Now().UnixNano()%1000, 36)
}

//go:build linux

package link

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// inside says that this process is in a network namespace of its own.
const inside = "FIREBREAK_TEST_NETNS"

// The tests change links and rules, so they run once more, in a namespace that ends
// with them.
func TestMain(m *testing.M) {
	if os.Getuid() != 0 || os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	err := cmd.Run()
	var code *exec.ExitError
	switch {
	case errors.As(err, &code):
		os.Exit(code.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func namespace(t *testing.T) {
	t.Helper()
	if os.Getenv(inside) == "" {
		t.Skip("skipped: a network namespace needs root: run it as root")
	}
}

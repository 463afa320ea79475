package house

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// coredns is our binary, built once.
var coredns = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "firebreak-house")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "coredns")
	cmd := exec.Command("go", "build", "-o", path, "./build/coredns")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built {
		if path, err := coredns(); err == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}
	os.Exit(code)
}

// built says that coredns was asked for.
var built bool

// binary is the path of our coredns.
func binary(t *testing.T) string {
	t.Helper()
	built = true
	path, err := coredns()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs a Corefile until the server says that it serves, and stops it. It
// returns what the server said, and an error if it did not come up.
func start(t *testing.T, dir, corefile string) (said string, err error) {
	t.Helper()
	return startAs(t, dir, corefile, binary(t), "-conf", "Corefile")
}

// startOnANode is start in a network namespace of its own, where the server may
// have the addresses that the Corefile says.
func startOnANode(t *testing.T, dir, corefile string) (said string, err error) {
	t.Helper()
	return startAs(t, dir, corefile, "unshare", "--net", "sh", "-c", `ip link set lo up && exec "$0" -conf Corefile`, binary(t))
}

func startAs(t *testing.T, dir, corefile string, argv ...string) (said string, err error) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "Corefile"), []byte(corefile), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	pr, pw := io.Pipe()
	cmd.Stdout, cmd.Stderr = pw, pw
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		pw.Close()
	}()
	var out bytes.Buffer
	up := make(chan struct{})
	read := make(chan struct{})
	go func() {
		defer close(read)
		serving := false
		for lines := bufio.NewScanner(pr); lines.Scan(); {
			out.WriteString(lines.Text() + "\n")
			if strings.HasPrefix(lines.Text(), "CoreDNS-") && !serving { // coremain says it when all listen
				serving = true
				close(up)
			}
		}
	}()
	select {
	case err = <-ended:
		<-read
		return out.String(), fmt.Errorf("it ended: %w", err)
	case <-time.After(30 * time.Second):
		err = fmt.Errorf("it does not serve after 30 s")
	case <-up:
		select { // a plugin may still die of what it finds
		case e := <-ended:
			<-read
			return out.String(), fmt.Errorf("it ended right after its start: %w", e)
		case <-time.After(200 * time.Millisecond):
		}
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-ended:
	case <-time.After(15 * time.Second):
		_ = cmd.Process.Kill()
		<-ended
		if err == nil {
			err = fmt.Errorf("it does not stop within 15 s of SIGINT")
		}
	}
	<-read
	return out.String(), err
}

// onANode finds Corefiles that take over a node's DNS.
var onANode = regexp.MustCompile(`(?m)^\s+nodelocal\s`)

// Every Corefile in the documentation starts on our binary.
func TestCorefilesInTheDocsStart(t *testing.T) {
	if testing.Short() {
		t.Skip("Builds the DNS server: not with -short")
	}
	n := 0
	for _, file := range files(t, ".md") {
		for _, b := range corefiles(file, read(t, file)) {
			n++
			t.Run(fmt.Sprintf("%s:%d", file, b.line), func(t *testing.T) {
				p := newPlace(t)
				fitted, start := p.fit(b.text), start
				if onANode.MatchString(b.text) {
					if os.Geteuid() != 0 {
						t.Skip("skipped: a node's own addresses need a network namespace: run it as root")
					}
					fitted, start = b.text, startOnANode
				}
				if said, err := start(t, p.dir, fitted); err != nil {
					t.Errorf("The Corefile does not start: %v\n%s\nIt was run as:\n%s", err, said, fitted)
				}
			})
		}
	}
	if n == 0 {
		t.Error("No Corefile in the documentation: the test looks at the wrong place")
	}
}

// A Corefile that is wrong is seen as that: else the test above proves nothing.
func TestWrongCorefileDoesNotStart(t *testing.T) {
	if testing.Short() {
		t.Skip("Builds the DNS server: not with -short")
	}
	p := newPlace(t)
	for _, corefile := range []string{
		". {\n nonsense\n}\n",
		". {\n control 192.0.2.1:9443\n}\n",
		". {\n azure x:y\n}\n",
	} {
		if said, err := start(t, p.dir, p.fit(corefile)); err == nil {
			t.Errorf("%q started, want an error\n%s", corefile, said)
		}
	}
}

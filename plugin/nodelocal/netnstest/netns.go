//go:build linux

// Package netnstest runs a package's tests in a network namespace of their own: they
// change links and rules, and it all ends with them.
package netnstest

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

// Main is TestMain: as root it runs the tests once more, in a namespace.
func Main(m *testing.M) {
	if os.Getuid() != 0 || os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...) // #nosec G204 -- the test itself
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

// Need skips a test that is not in a namespace.
func Need(t *testing.T) {
	t.Helper()
	if os.Getenv(inside) == "" {
		t.Skip("skipped: a network namespace needs root: run it as root")
	}
}

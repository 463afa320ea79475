package cmd

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"firebreak":         func() { os.Exit(Main(System())) },
		"kubectl-firebreak": func() { os.Exit(Main(System())) },
		"interrupt":         interrupt,
	})
}

// TestScripts runs the scripts in testdata/script, each against a controller
// of its own behind a unix socket. After "exits N", the command before it is
// held to have ended with that code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			// A socket's path may be 107 bytes; a test's folder is often longer.
			dir, err := os.MkdirTemp("", "fb")
			if err != nil {
				return err
			}
			env.Defer(func() { _ = os.RemoveAll(dir) })
			path := filepath.Join(dir, "api.sock")
			l, err := net.Listen("unix", path)
			if err != nil {
				return err
			}
			env.Defer(func() { _ = l.Close() })
			f := &fake{begun: map[string]time.Time{}}
			go f.serve(l)
			env.Setenv("FIREBREAK_CONTROLLER", "unix://"+path)
			env.Setenv("TZ", "UTC")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a command and holds it to its exit code: exits 3 firebreak drill …
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		code, ok := exitCode(err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = code
	}
	if got != args[0] {
		ts.Fatalf("%v ended with %s, not %s", args[1:], got, args[0])
	}
}

// interrupt runs a command, sends it a Ctrl-C after a second, and ends as it did.
func interrupt() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		os.Exit(99)
	}
	time.Sleep(time.Second)
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
	os.Exit(cmd.ProcessState.ExitCode())
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/cluster/lab"
)

// TestReplaced has a cluster taken down behind the back of the command that
// runs it, and another started by its name: the end of the command is not the
// end of that.
func TestReplaced(t *testing.T) {
	t.Parallel()
	c := newCleaner(t, 0)
	t.Cleanup(func() { c.run(t, "down") })
	stale, said := c.foreground(t, c.command)
	c.run(t, "down")
	c.run(t, "up", "--nodes", "0")
	if err := stale.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := stale.Wait(); err == nil {
		t.Error("a command whose cluster is gone ended well")
	}
	if !strings.Contains(said.String(), "by somebody else") {
		t.Errorf("it says %q", said)
	}
	if out := c.run(t, "status"); !strings.Contains(out, c.name+": up, ") {
		t.Errorf("the other cluster is not up any more: %q", out)
	}
}

// TestOtherStateFolder meets a cluster that is up in another state folder with
// every command that could harm it.
func TestOtherStateFolder(t *testing.T) {
	t.Parallel()
	c := newCleaner(t, 0)
	t.Cleanup(func() { c.run(t, "down") })
	c.run(t, "up", "--nodes", "0")
	other := *c
	other.env = []string{"FIREBREAK_CLUSTER_STATE=" + t.TempDir()}
	for _, words := range []string{"up --nodes 0", "up --nodes 0 --foreground", "down"} {
		out, err := other.try(t, strings.Fields(words)...)
		if err == nil || !strings.Contains(out, "belongs to another state folder, ") {
			t.Errorf("cluster %s, with another state folder, says %q (%v)", words, out, err)
		}
	}
	for _, who := range []*cleaner{c, &other} {
		if out := who.run(t, "status"); !strings.Contains(out, c.name+": up, ") {
			t.Errorf("with %v, status says %q", who.env, out)
		}
	}
	if out := other.run(t, "status"); !strings.Contains(out, "another state folder, FIREBREAK_CLUSTER_STATE=/") {
		t.Errorf("status does not say whose it is: %q", out)
	}
}

// TestTwoUps starts a cluster twice at once: one is up, and the other says why
// it is not.
func TestTwoUps(t *testing.T) {
	t.Parallel()
	c := newCleaner(t, 0)
	t.Cleanup(func() { c.run(t, "down") })
	var outs [4]string
	var errs [4]error
	var wait sync.WaitGroup
	for i := range outs {
		wait.Go(func() { outs[i], errs[i] = c.try(t, "up", "--nodes", "0") })
	}
	wait.Wait()
	up := 0
	for i, err := range errs {
		if err == nil {
			up++
		} else if !strings.Contains(outs[i], "use another name, or") {
			t.Errorf("one of four says %q", outs[i])
		}
	}
	if up != 1 {
		t.Errorf("%d of four are up, want one: %q", up, outs)
	}
	if out := c.run(t, "status"); !strings.Contains(out, c.name+": up, ") {
		t.Errorf("status says %q", out)
	}
}

// TestInterrupted interrupts the start of a cluster.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	c := newCleaner(t, 0)
	t.Cleanup(func() { c.run(t, "down") })
	up := exec.Command(c.command, "up", "--nodes", "0", "--name", c.name)
	said := &output{}
	up.Stdout, up.Stderr = said, said
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	state, err := lab.StateDir()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the start", func(context.Context) error {
		_, err := os.Stat(filepath.Join(state, c.name))
		return err
	})
	if err := up.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _ = up.Wait(); up.ProcessState.ExitCode() != exitInterrupted || !strings.Contains(said.String(), "cluster: interrupted") {
		t.Errorf("an interrupted start returns %d and says %q", up.ProcessState.ExitCode(), said)
	}
	after, err := lab.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range after.Of(c.name) {
		t.Errorf("after it, there is %s", line)
	}
}

// TestGoRunKilled kills not the command but the go run that runs it.
func TestGoRunKilled(t *testing.T) {
	t.Parallel()
	c := newCleaner(t, 0)
	t.Cleanup(func() { c.run(t, "down") })
	run, _ := c.foreground(t, "go", "run", ".")
	kill(t, run.Process.Pid)
	_ = run.Wait()
	for range 100 {
		if out := c.run(t, "status"); !strings.Contains(out, c.name+": ") {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("10 s after go run was killed, status says %q", c.run(t, "status"))
}

// foreground starts a cluster in the foreground and waits until it is up. The
// command is the program, or go run and what it runs.
func (c *cleaner) foreground(t *testing.T, command ...string) (*exec.Cmd, *output) {
	t.Helper()
	words := append(command, "up", "--foreground", "--name", c.name, "--nodes", fmt.Sprint(c.nodes))
	// Not the test's own context, which is over too early.
	up := exec.CommandContext(context.Background(), words[0], words[1:]...)
	said := &output{}
	up.Stdout, up.Stderr = said, said
	// Who waits for go run need not wait for its orphan.
	up.WaitDelay = time.Second
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(up.Process.Pid, syscall.SIGKILL) })
	eventually(t, time.Minute, "the cluster to be up", func(context.Context) error {
		if !strings.Contains(said.String(), "KUBECONFIG") {
			return fmt.Errorf("it says %q", said)
		}
		return nil
	})
	return up, said
}

// output is what a command says, to be read while it runs.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

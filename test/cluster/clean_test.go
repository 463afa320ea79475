package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/cluster/lab"
)

// TestClean goes through one cycle of cleaner with one node.
func TestClean(t *testing.T) {
	t.Parallel()
	c := newCleaner(t, 1)
	c.cycle(t, 0)
}

// TestCleanSoak goes through ten cycles with three nodes, alone on the machine.
func TestCleanSoak(t *testing.T) {
	if os.Getenv(soakEnv) == "" {
		t.Skipf("skipped: ten times up and down takes five minutes; set %s=1, as make soak does", soakEnv)
	}
	c := newCleaner(t, 3)
	c.strict = true
	for i := range 10 {
		t.Run(fmt.Sprint(i), func(t *testing.T) { c.cycle(t, i) })
	}
}

// cleaner starts clusters, kills what runs them, and looks at what is left.
type cleaner struct {
	command string
	name    string
	nodes   int
	before  lab.Snapshot
	// env is added to the command's environment.
	env []string
	// strict compares all of the machine, and not only what is the cluster's by
	// its name: no other test may run meanwhile.
	strict bool
	random *rand.Rand
}

func newCleaner(t *testing.T, nodes int) *cleaner {
	t.Helper()
	lab.Require(t)
	command, err := lab.Compile(t.Context(), t.TempDir(), "firebreakdns.io/firebreak/test/cluster")
	if err != nil {
		t.Fatal(err)
	}
	// The programs are not what is measured.
	if _, err := lab.Build(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &cleaner{command: command, name: lab.NameFor(t), nodes: nodes, random: rand.New(rand.NewPCG(seed, 0))}
}

// cycle kills what runs a cluster, starts the cluster over what is left, and
// takes it down.
func (c *cleaner) cycle(t *testing.T, i int) {
	before, err := lab.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.before = before
	kills := []func(*testing.T){c.killUp, c.killOwner, c.killKeepers}
	kills[i%len(kills)](t)
	// Nothing is left, without anybody's doing. If even the keepers were killed,
	// nothing runs, and there may be groups and the link.
	c.gone(t, "after the kill", func(line string) bool {
		return i%len(kills) == 2 && (strings.HasPrefix(line, "+ cgroup: ") || strings.HasPrefix(line, "+ ip "))
	})
	started := time.Now()
	c.run(t, "up", "--nodes", fmt.Sprint(c.nodes))
	t.Logf("up over the remains in %s", time.Since(started).Round(time.Second))
	// What is written on a machine is the machine's, wherever it is written.
	c.run(t, "exec", "control", "sh", "-c", "for dir in / /*/ /usr/*/ /var/*/ /dev/shm/; do touch $dir/firebreak-"+c.name+" 2>/dev/null; done; ls /srv/firebreak-"+c.name)
	started = time.Now()
	c.run(t, "down")
	t.Logf("down in %s", time.Since(started).Round(10*time.Millisecond))
	c.gone(t, "after down", func(string) bool { return false })
	state, err := lab.StateDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(state, c.name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cluster's folder is still there: %v", err)
	}
}

// killUp kills the command in the middle of starting a cluster.
func (c *cleaner) killUp(t *testing.T) {
	up := exec.Command(c.command, "up", "--name", c.name, "--nodes", fmt.Sprint(c.nodes))
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	after := 500*time.Millisecond + time.Duration(c.random.Int64N(int64(8*time.Second)))
	time.Sleep(after)
	kill(t, up.Process.Pid)
	_ = up.Wait()
	t.Logf("killed up after %s", after.Round(time.Millisecond))
}

// killOwner kills the process that a cluster belongs to, as a test is that dies.
func (c *cleaner) killOwner(t *testing.T) {
	up, _ := c.foreground(t, c.command)
	kill(t, up.Process.Pid)
	_ = up.Wait()
}

// killKeepers kills what holds the machines of a cluster that is up.
func (c *cleaner) killKeepers(t *testing.T) {
	c.run(t, "up", "--nodes", fmt.Sprint(c.nodes))
	snapshot, err := lab.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for line := range snapshot {
		var pid int
		var program string
		if n, _ := fmt.Sscanf(line, "process: %d %s", &pid, &program); n != 2 || filepath.Base(program) != "keeper" {
			continue
		}
		words, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(words), "machine\x00") && strings.Contains(string(words), "/"+c.name+"/") {
			kill(t, pid)
			killed++
		}
	}
	if killed != c.nodes+1 {
		t.Errorf("killed %d keepers, want one for each of %d nodes and the control plane", killed, c.nodes)
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// run runs the command on the cluster, which must succeed.
func (c *cleaner) run(t *testing.T, words ...string) string {
	t.Helper()
	out, err := c.try(t, words...)
	if err != nil {
		t.Fatalf("cluster %s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return out
}

// try runs the command on the cluster and returns all that it says.
func (c *cleaner) try(t *testing.T, words ...string) (string, error) {
	t.Helper()
	// Not the test's own context, which is over when it is time for down.
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	// The name goes behind the words that name the command.
	at := 1
	if words[0] == "node" {
		at = min(2, len(words))
	}
	named := []string{"--name", c.name}
	if words[0] == "status" || words[0] == "nonsense" {
		named = nil
	}
	cmd := exec.CommandContext(ctx, c.command, slices.Concat(words[:at], named, words[at:])...)
	cmd.Env = append(os.Environ(), c.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// foreign says that a line is about a named network namespace that no cluster
// can have made: machines have none, and containerd's begin with cni-. Tests of
// resolvers and the like make some, perhaps at the same time.
func foreign(line string) bool {
	for _, start := range []string{"+ ip netns list: ", "+ mount: nsfs /run/netns/"} {
		if name, ok := strings.CutPrefix(line, start); ok {
			return !strings.HasPrefix(name, "cni-")
		}
	}
	return false
}

// gone waits until nothing of the cluster is left but what may be.
func (c *cleaner) gone(t *testing.T, when string, may func(line string) bool) {
	t.Helper()
	var left []string
	for range 100 {
		now, err := lab.TakeSnapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		diff := now.Diff(c.before)
		if !c.strict {
			diff = now.Of(c.name).Diff(c.before.Of(c.name))
		}
		left = nil
		for _, line := range diff {
			// What is gone is not the cluster's: it was there before it.
			if strings.HasPrefix(line, "+ ") && !may(line) && !foreign(line) {
				left = append(left, line)
			}
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Errorf("%s, this is left:\n%s", when, strings.Join(left, "\n"))
}

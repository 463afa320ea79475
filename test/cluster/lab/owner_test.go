package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/cluster/lab/cgroup"
)

func TestNameIsLockedOnce(t *testing.T) {
	name := testName(os.Getpid(), t.Name())
	unlock, err := lockName(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := lockName(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second lock on the name: %v", err)
	}
	if other, err := lockName(t.Context(), name+"x"); err != nil {
		t.Errorf("a lock on another name: %v", err)
	} else {
		other()
	}
	unlock()
	unlock()
	again, err := lockName(t.Context(), name)
	if err != nil {
		t.Fatalf("after it was let go: %v", err)
	}
	again()
}

// Who starts or ends a cluster waits for others who do, and touches nothing
// before.
func TestUpAndDownWaitForTheName(t *testing.T) {
	Require(t)
	t.Setenv(StateEnv, t.TempDir())
	state, err := StateDir()
	if err != nil {
		t.Fatal(err)
	}
	// Up looks at the programs first: let that be quick.
	if _, err := Build(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	name := testName(os.Getpid(), t.Name())
	r, dir, err := claim(t.Context(), state, name)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := lockName(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	for what, do := range map[string]func(context.Context) error{
		"Up":   func(ctx context.Context) error { _, err := Up(ctx, Options{Name: name}); return err },
		"Down": func(ctx context.Context) error { return Down(ctx, name) },
		"end":  func(ctx context.Context) error { return newCluster(r, dir, t.Output()).end(ctx, false) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := do(ctx); err == nil || !strings.Contains(err.Error(), "waiting for the cluster name "+name) {
			t.Errorf("%s while another process has the name: %v", what, err)
		}
		cancel()
	}
	if now, err := readRecord(dir); err != nil || now.ID != r.ID {
		t.Errorf("the record is %+v (%v), want the one from before", now, err)
	}
}

func TestTestNames(t *testing.T) {
	for _, pid := range []int{1, 300, 32768, 1<<22 - 1} {
		for _, what := range []string{"", "TestX", "TestX left"} {
			name := testName(pid, what)
			if err := checkName(name); err != nil || testPID(name) != pid {
				t.Errorf("testName(%d, %q) = %s, of process %d (%v)", pid, what, name, testPID(name), err)
			}
		}
	}
	if testName(7, "TestX") == testName(8, "TestX") || testName(7, "TestX") == testName(7, "TestY") {
		t.Error("two clusters of tests have the same name")
	}
	for _, name := range []string{"dev", "t-0a1b2c3d4e", "t-dev", "t-a-b", ""} {
		if pid := testPID(name); pid != 0 {
			t.Errorf("%s is taken for a name of a test in process %d", name, pid)
		}
	}
}

// TestSweep leaves what a killed run may leave, of a dead process and of one
// that lives.
func TestSweep(t *testing.T) {
	Require(t)
	t.Setenv(StateEnv, t.TempDir())
	state, err := StateDir()
	if err != nil {
		t.Fatal(err)
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	dead, alive := testName(ended.Process.Pid, t.Name()), testName(os.Getpid(), t.Name())
	for _, name := range []string{dead, alive} {
		if err := errors.Join(cgroup.Create(path.Join(cgroupName(name), control)), makeDirs(state, name)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := cgroup.Remove(cgroupName(name), killLimit); err != nil {
				t.Error(err)
			}
		})
	}
	if err := sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if left := remains(state, dead); len(left) > 0 {
		t.Errorf("of a dead test there is %v", left)
	}
	if left := remains(state, alive); len(left) != 2 {
		t.Errorf("of a test that runs there is only %v", left)
	}
}

// What a process knows of a cluster is no reason to touch another of its name.
func TestReplacedClusterIsLeftAlone(t *testing.T) {
	Require(t)
	t.Setenv(StateEnv, t.TempDir())
	state, err := StateDir()
	if err != nil {
		t.Fatal(err)
	}
	name := testName(os.Getpid(), t.Name())
	first, dir, err := claim(t.Context(), state, name)
	if err != nil {
		t.Fatal(err)
	}
	old := newCluster(first, dir, t.Output())
	second, _, err := claim(t.Context(), state, name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = old.machine(control)
	for what, err := range map[string]error{
		"Down": old.Down(), "change": old.change(func(r *record) { r.Released = true }), "machine": err,
		"LoadImage": old.LoadImage(t.Context(), Image{Ref: "localhost/x:1"}),
	} {
		if err == nil || !strings.Contains(err.Error(), "by somebody else") {
			t.Errorf("%s of a cluster that was replaced: %v", what, err)
		}
	}
	if now, err := readRecord(dir); err != nil || now.ID != second.ID || now.Released {
		t.Errorf("the other cluster's record is %+v (%v)", now, err)
	}
	if err := newCluster(second, dir, t.Output()).Down(); err != nil || exists(dir) {
		t.Errorf("the other cluster's own end: %v", err)
	}
}

func TestStateFolderIsNotShownToNodes(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/usr/share", link); err != nil {
		t.Fatal(err)
	}
	for dir, good := range map[string]bool{
		"": true, "/var/lib/x": true, "/home/x/state": true, "/root": true, "/user": true,
		"/usr/local/x": false, "/etc/firebreak": false, "/usr": false, "/dev/shm/x": false, link: false, link + "/a/b": false,
	} {
		t.Setenv(StateEnv, dir)
		if got, err := StateDir(); (err == nil) != good {
			t.Errorf("%s=%s: %s, %v", StateEnv, dir, got, err)
		}
	}
}

// A keeper whose owner dies before it is ready leaves nothing either.
func TestKeeperWhoseOwnerDied(t *testing.T) {
	Require(t)
	programs, err := Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	name := testName(os.Getpid(), t.Name())
	dir := filepath.Join(t.TempDir(), name, "machines", "m")
	if err := makeDirs(dir, "root"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "machine.json")
	content := `{"Hostname": "m", "Root": "` + filepath.Join(dir, "root") + `", "Cgroup": "` + cgroupName(name) + `/m"}`
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cgroup.Kill(cgroupName(name), killLimit), cgroup.Remove(cgroupName(name), killLimit)); err != nil {
			t.Error(err)
		}
	})
	keeper := exec.Command(programs["keeper"], "machine", file)
	answers, toNobody, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	keeper.Stdout = toNobody
	if err := answers.Close(); err != nil {
		t.Fatal(err)
	}
	leash, err := keeper.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(toNobody.Close(), leash.Close()); err != nil {
		t.Fatal(err)
	}
	if err := keeper.Wait(); err == nil {
		t.Error("a keeper that nobody listens to ended well")
	}
	groups, err := cgroup.Find(prefix)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(groups, prefix+name) {
		t.Error("its control groups are left")
	}
}

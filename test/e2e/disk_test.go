//go:build linux

package e2e

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
)

// diskLab keeps what programs keep on a file system of its own, of 1 MiB.
func diskLab(t *testing.T, net int) *lab {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a file system that is full needs root to be mounted")
	}
	l := emptyLab(t, net, nil)
	l.small = filepath.Join(l.dir, "disk")
	if err := os.Mkdir(l.small, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("firebreak-e2e", l.small, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(l.small, syscall.MNT_DETACH) }) // nothing of it is wanted
	l.servers()
	return l
}

func (l *lab) ballast() string { return filepath.Join(l.small, "ballast") }

// fill leaves no room on the disk.
func (l *lab) fill() {
	l.t.Helper()
	f, err := os.Create(l.ballast())
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			l.t.Fatal(err)
		}
	}
}

// free makes room again.
func (l *lab) free() {
	l.t.Helper()
	if err := os.Remove(l.ballast()); err != nil {
		l.t.Fatal(err)
	}
}

// The disk is full before anything has changed: nothing changes, and the report
// says why.
func TestDiskFullBeforeItBegins(t *testing.T) {
	l := diskLab(t, 116)
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	ask := view.DrillRequest{Everyone: true, DurationSeconds: 15, Reason: "e2e"}
	var begun run.Report
	if status := c.call("POST", drill("ns1"), ask, &begun); status != http.StatusAccepted {
		t.Fatalf("%d: %+v", status, begun)
	}
	l.fill()
	report := c.final(begun.ID, time.Minute)
	if report.Phase != run.Refused || report.Reason != run.StateNotWritable || !strings.Contains(report.Message, "no space left") {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	for _, name := range []string{"ns1", "ns2"} {
		if s := l.state(name); s.Drill != nil || s.Recording != nil {
			t.Errorf("%s was touched: %+v %+v", name, s.Drill, s.Recording)
		}
	}
	var p view.RefusedProblem
	if status := c.call("POST", drill("ns1"), ask, &p); status != http.StatusConflict || p.Reason != run.StateNotWritable || !strings.Contains(p.Detail, "no space left") {
		t.Errorf("another one: %d %s", status, p.Detail)
	}
	l.free()
	l.nothingLeft(5 * time.Second)
}

// The disk is full while the server is out: the drill goes on to its end, and is
// written down once there is room.
func TestDiskFullInMidDrill(t *testing.T) {
	l := diskLab(t, 117)
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	id := c.begin(15)
	l.fill()
	report := c.final(id, 50*time.Second)
	if report.Outcome != run.Passed {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	l.clean(10 * time.Second)
	if left := l.unfinished(); len(left) != 1 {
		t.Errorf("was it full? %v", left)
	}
	// What a server keeps does not fit either: it ends as ever, and leaves nothing.
	l.ns["ns2"].signal(syscall.SIGTERM)
	select {
	case <-l.ns["ns2"].done:
	case <-time.After(10 * time.Second):
		t.Error("ns2 does not end")
	}
	l.server("ns2")
	l.free()
	l.nothingLeft(10 * time.Second)
}

// The disk is full and the controller is killed: the next one ends the drill,
// although it can write nothing down.
func TestDiskFullAndControllerKilled(t *testing.T) {
	l := diskLab(t, 118)
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	id := c.begin(120)
	l.fill()
	c.kill()
	c = l.controller("c", short())
	if got := l.drilled("ns1"); got != id {
		t.Errorf("drilled: %q", got)
	}
	var stopped run.Report
	c.call("DELETE", drill("ns1"), nil, &stopped)
	l.eventually(2*time.Second, "ns1 answers again", func() bool { return l.answers("ns1") })
	report := c.final(id, 30*time.Second)
	if report.Outcome != run.Stopped || report.Reason != run.StoppedByCaller {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	l.free()
	l.nothingLeft(10 * time.Second)
}

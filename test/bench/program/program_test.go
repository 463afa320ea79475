package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	line := "77 (a ) b) S 12 77 77 0 -1 4194304 1 2 3 4 150 250 10 20 20 0 9 0 100 1 1\n"
	s, err := parseStat(line)
	if err != nil || s.parent != 12 || s.user != 1600*time.Millisecond || s.system != 2700*time.Millisecond || s.children != 300*time.Millisecond {
		t.Errorf("ParseStat = %+v, %v, want parent 12, user 1.6 s, system 2.7 s, children 0.3 s", s, err)
	}
	if _, err := parseStat("77 (x) S 1"); err == nil {
		t.Error("ParseStat of a short line has no error")
	}
}

// The clock that is read from outside agrees with what the process did, and
// children count.
func TestUsage(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p, err := Start(Spec{Args: []string{"sh", "-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; sleep 60' & sleep 60"}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if b, _ := os.ReadFile(log); strings.Contains(string(b), "done") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("The loop did not end within 30 s")
		}
	}
	u, err := p.Usage()
	if err != nil || u.Total < 20*time.Millisecond || u.Total > 30*time.Second {
		t.Errorf("Usage = %+v, %v, want the loop's CPU time", u, err)
	}
	if diff := (u.Total - u.User - u.System).Abs(); diff > 100*time.Millisecond {
		t.Errorf("Total %s, user + system %s: they measure the same", u.Total, u.User+u.System)
	}
	if rss, err := p.RSS(); err != nil || rss < 100_000 {
		t.Errorf("RSS = %d, %v, want that of four shells", rss, err)
	}
	if err := p.Err(); err != nil {
		t.Errorf("Err while it runs = %v", err)
	}
}

func TestStopEndsTheGroup(t *testing.T) {
	p, err := Start(Spec{Args: []string{"sh", "-c", "sleep 60 & sleep 60"}, Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	pids, err := tree(p.PID())
	for i := 0; err == nil && len(pids) < 2 && i < 200; i++ {
		time.Sleep(5 * time.Millisecond)
		pids, err = tree(p.PID())
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Stop()
	for _, pid := range pids {
		if s, err := readStat(pid); err == nil && s.parent == os.Getpid() {
			t.Errorf("Process %d of the group is still there", pid)
		}
	}
	if p.Err() == nil {
		t.Error("Err after the end = nil, want that it ended")
	}
}

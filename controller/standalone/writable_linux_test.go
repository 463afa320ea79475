package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"firebreakdns.io/firebreak/controller/run"
)

// A disk that is full indeed, where a test may make one.
func TestDiskReallyFull(t *testing.T) {
	p := newPlace(t)
	if err := syscall.Mount("tmpfs", p.state, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no file system can be made here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(p.state, syscall.MNT_DETACH) })
	r := p.start()
	fill := filepath.Join(p.state, "fill")
	if err := os.WriteFile(fill, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is larger than it was made")
	}
	if q := r.as("olga")("POST", drillNS1, everyone).problem(t); q.Reason != run.StateNotWritable || !strings.Contains(q.Detail, "no space left on device") {
		t.Errorf("%+v", q)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	eventually(t, withinFew, "it is told that it works again", func() bool { return p.log.count(canAgain) == 1 })
	r.begin()
	r.stop() // before its state folder goes
}

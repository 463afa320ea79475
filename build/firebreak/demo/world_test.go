package demo

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/fleet"
)

// TestFleetFileIsOne has the controller's own reader read what the demo writes,
// certificates included.
func TestFleetFileIsOne(t *testing.T) {
	if err := supported(); err != nil {
		t.Skip(err)
	}
	w, err := newWorld()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(w.dir)
	if err := w.certificates(); err != nil {
		t.Fatal(err)
	}
	path, err := w.file("fleet.yaml", w.fleetFile(newCast(w)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := fleet.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if !c.AllLoopback() || len(c.Servers) != serverCount || !c.Drills.Enabled {
		t.Errorf("%+v", c)
	}
	if expired := c.Expired(time.Now()); len(expired) > 0 {
		t.Error(expired)
	}
}

// TestHerdEndsItsProcesses, those too that do not listen.
func TestHerdEndsItsProcesses(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here")
	}
	h := newHerd(t.TempDir())
	polite, err := h.run("polite", sh, nil, "-c", "sleep 60")
	if err != nil {
		t.Fatal(err)
	}
	deaf, err := h.run("deaf", sh, nil, "-c", "trap '' TERM; while :; do sleep 1; done")
	if err != nil {
		t.Fatal(err)
	}
	if m := h.fallen(); m != nil {
		t.Fatalf("%s has ended: %s", m.name, m.lastWords())
	}
	time.Sleep(100 * time.Millisecond) // until the trap is set
	h.stop()
	for _, m := range []*member{polite, deaf} {
		select {
		case <-m.done:
		default:
			t.Errorf("%s lives on", m.name)
		}
	}
	if _, err := h.run("late", sh, nil, "-c", "true"); err == nil {
		t.Error("a process was started after the end")
	}
	h.stop() // twice is no harm
}

func TestHerdSaysWhoFell(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here")
	}
	h := newHerd(t.TempDir())
	defer h.stop()
	m, err := h.run("short", sh, nil, "-c", "echo no such directive >&2; exit 1")
	if err != nil {
		t.Fatal(err)
	}
	<-m.done
	if f := h.fallen(); f != m || f.lastWords() != "    no such directive" {
		t.Errorf("fallen: %v", f)
	}
}

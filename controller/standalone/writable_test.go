package standalone

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
)

// lose takes the state folder away as a full or broken disk does; the returned
// function gives it back.
func (p *place) lose() (back func()) {
	p.t.Helper()
	runs := filepath.Join(p.state, "runs")
	if err := os.Rename(runs, runs+".gone"); err != nil {
		p.t.Fatal(err)
	}
	return func() {
		if err := os.Rename(runs+".gone", runs); err != nil {
			p.t.Fatal(err)
		}
	}
}

const (
	cannot    = "nothing is changed any more until this works"
	canAgain  = "the state folder can be written again"
	writable  = `firebreak_state_writable{fleet="office"} `
	whyGone   = "no such file or directory"
	withinFew = 8 * time.Second
)

func (r *running) scraped() string {
	return string(r.as("vera")("GET", "/metrics", "").body)
}

// notWritable holds everything that people see to saying what is wrong: the disk.
func (r *running) notWritable(unsaved string) {
	t := r.p.t
	t.Helper()
	plan := decodeAs[run.Plan](t, r.as("ada")("POST", drillNS1, dryRun))
	if no := run.FirstRefusal(plan.Checks); plan.Allowed || no == nil || no.Reason != run.StateNotWritable {
		t.Errorf("planned all the same: %+v", plan.Checks)
	}
	for _, check := range plan.Checks { // a run that is over is none that is on, whatever the disk says of it
		if check.Passed == (check.Reason == run.StateNotWritable) {
			t.Errorf("%+v", check)
		}
	}
	q := r.as("olga")("POST", drillNS1, everyone).problem(t)
	if q.Reason != run.StateNotWritable || !strings.Contains(q.Detail, whyGone) || !strings.Contains(q.Detail, r.p.state) {
		t.Errorf("%+v", q)
	}
	if !strings.Contains(r.scraped(), writable+"0") {
		t.Error("the metric says that it can be written")
	}
	if unsaved == "" {
		return
	}
	if report := decodeAs[run.Report](t, r.as("vera")("GET", view.PathDrills+"/"+unsaved, "")); !strings.Contains(report.Unsaved, whyGone) {
		t.Errorf("the report seems to be on disk: %+v", report.Unsaved)
	}
	if list := decodeAs[view.DrillList](t, r.as("vera")("GET", view.PathDrills, "")); !strings.Contains(list.Drills[0].Unsaved, whyGone) {
		t.Errorf("so it does in the list: %+v", list.Drills[0])
	}
}

// again waits until all is said to be well, and is.
func (r *running) again(id string) {
	t := r.p.t
	t.Helper()
	eventually(t, withinFew, "it is told that it works again", func() bool { return r.p.log.count("level=INFO", canAgain) == 1 })
	if !strings.Contains(r.scraped(), writable+"1") {
		t.Error("the metric says that it cannot be written")
	}
	if id != "" {
		eventually(t, withinFew, "the run is on disk as it ended", func() bool {
			old, err := r.store.read(id)
			return err == nil && old.Phase.Final() && r.as("vera")("GET", view.PathDrills+"/"+id, "").status == 200
		})
		if report := decodeAs[run.Report](t, r.as("vera")("GET", view.PathDrills+"/"+id, "")); report.Unsaved != "" {
			t.Errorf("still said to be in memory only: %s", report.Unsaved)
		}
	}
	if n := r.p.log.count("level=ERROR", cannot, whyGone); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// A run that cannot be written down changes nothing, and is refused for that.
func TestDiskFullBeforeTheOutage(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	a := r.as("olga")("POST", drillNS1, everyone)
	if a.status != 202 {
		t.Fatalf("%s", a.body)
	}
	id := decodeAs[run.Report](t, a).ID
	back := p.lose()
	done := r.final(id)
	if done.Outcome != run.Refusal || done.Reason != run.StateNotWritable {
		t.Errorf("%s %s %s", done.Outcome, done.Reason, done.Message)
	}
	r.notWritable(id)
	if touched := p.touched(); len(touched) != 0 {
		t.Errorf("changed without a record: %v", touched)
	}
	back()
	r.again(id)
	r.begin()
}

// A drill that is on when the disk fills up is put back and reported; until the
// report is on disk that is said, and it is not taken for a drill that is on.
func TestDiskFullInMidDrill(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	report := r.begin()
	back := p.lose()
	r.as("olga")("DELETE", drillNS1, "")
	eventually(t, withinFew, "ns1 is back", func() bool { return !p.out() })
	if done := r.final(report.ID); done.Outcome != run.Stopped || done.Reason != run.StoppedByCaller {
		t.Errorf("%s %s", done.Outcome, done.Reason)
	}
	r.notWritable(report.ID)
	back()
	r.again(report.ID)
	eventually(t, withinFew, "the run is over", func() bool { return r.find(report.ID) == nil })
	if old, err := r.store.read(report.ID); err != nil || !old.Over() || old.Outcome != run.Stopped {
		t.Errorf("on disk: %v %s", err, old.Outcome)
	}
	r.begin()
}

// Nobody drills, and the disk is full: whoever asks is told.
func TestDiskFullWhileIdle(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	back := p.lose()
	r.notWritable("")
	back()
	r.again("")
	if list := decodeAs[view.DrillList](t, r.as("vera")("GET", view.PathDrills, "")); len(list.Drills) != 0 {
		t.Errorf("%+v", list)
	}
}

func TestPlainly(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "/state/runs/.new-1", Err: syscall.ENOSPC}
	for _, err := range []error{
		full, fmt.Errorf("x: %w", full), errors.Join(full, errors.New("closed")),
		&os.LinkError{Op: "rename", Err: syscall.ENOSPC}, os.NewSyscallError("fsync", syscall.ENOSPC),
	} {
		if got := plainly(err).Error(); got != "no space left on device" {
			t.Errorf("%v: %q", err, got)
		}
	}
	if got := plainly(errors.New("what else")).Error(); got != "what else" {
		t.Error(got)
	}
}

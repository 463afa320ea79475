package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
)

// tail is a longer time that recordings run on, to do something meanwhile.
const tail = "FIREBREAK_DRILL_TAIL_SECONDS=8"

// phase waits until a run is in one.
func (c *controller) phase(id string, p run.Phase, within time.Duration) {
	c.l.t.Helper()
	c.l.eventually(within, "run "+id+" is in "+string(p), func() bool {
		var report run.Report
		return c.call("GET", view.PathDrills+"/"+id, nil, &report) == http.StatusOK && report.Phase == p
	})
}

// unheard is a server as a report has it that could not tell.
func unheard(report run.Report, server string) *run.Unheard {
	i := slices.IndexFunc(report.Unheard, func(u run.Unheard) bool { return u.Server == server })
	if i < 0 {
		return nil
	}
	return &report.Unheard[i]
}

// verdict of a client of the lab.
func (l *lab) verdict(report run.Report, host int) run.Verdict {
	for _, c := range report.Clients {
		if c.Address == l.ip(host) {
			return c.Verdict
		}
	}
	return ""
}

// The controller is killed before anything has changed: the run does not begin
// later, when nobody expects it any more.
func TestControllerKilledWhileReading(t *testing.T) {
	l := newLab(t, 100)
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	var report run.Report
	if status := c.call("POST", drill("ns1"), view.DrillRequest{Everyone: true, DurationSeconds: 15, Reason: "e2e"}, &report); status != http.StatusAccepted {
		t.Fatalf("%d: %+v", status, report)
	}
	c.kill()
	c = l.controller("c", short())
	report = c.final(report.ID, 10*time.Second)
	if report.Outcome != run.Stopped || report.Reason != run.ControllerLost || report.Started != nil {
		t.Errorf("%s %s, started %v", report.Outcome, report.Reason, report.Started)
	}
	if s := l.state("ns1"); s.Drill != nil || s.Recording != nil {
		t.Errorf("ns1 was touched: %+v %+v", s.Drill, s.Recording)
	}
	l.nothingLeft(5 * time.Second)
}

// The controller is killed when the outage is over, and nothing is read yet: the
// next one reads it, and judges.
func TestControllerKilledWhileRecording(t *testing.T) {
	l := newLab(t, 101)
	c := l.controller("c", append(short(), tail))
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	id := c.begin(15)
	c.phase(id, run.Recording, 25*time.Second)
	c.kill()
	time.Sleep(3 * time.Second)
	c = l.controller("c", append(short(), tail))
	report := c.final(id, 30*time.Second)
	if report.Outcome != run.Passed || l.verdict(report, 10) != run.Followed {
		t.Errorf("%s %s: %s; the client: %s", report.Outcome, report.Reason, report.Message, l.verdict(report, 10))
	}
	l.nothingLeft(10 * time.Second)
}

// The only other server is killed while the first one is out: that is the moment in
// which a drill could become an outage.
func TestOtherServerKilled(t *testing.T) {
	l := newLab(t, 102)
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	id := c.begin(120)
	time.Sleep(time.Second)
	l.ns["ns2"].kill()
	killed := time.Now()
	l.eventually(10*time.Second, "ns1 answers again", func() bool { return l.answers("ns1") })
	t.Logf("ns1 answered again %s after ns2 was killed", time.Since(killed).Round(100*time.Millisecond))
	l.server("ns2")
	report := c.final(id, 30*time.Second)
	if report.Outcome != run.Failed || report.Reason != run.NoneHealthy {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	if unheard(report, "ns2") == nil {
		t.Errorf("ns2's part went with its process, and it is not named: %+v", report.Unheard)
	}
	l.nothingLeft(10 * time.Second)
}

// The drilled server is killed when it is back, and its recording with it: nobody's
// verdict is known, and the report says so.
func TestServerKilledWhileRecording(t *testing.T) {
	l := newLab(t, 103)
	c := l.controller("c", append(short(), tail))
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	id := c.begin(15)
	c.phase(id, run.Recording, 25*time.Second)
	l.ns["ns1"].kill()
	l.server("ns1")
	report := c.final(id, 40*time.Second)
	if report.Outcome != run.Failed || report.Reason != run.Incomplete || unheard(report, "ns1") == nil {
		t.Errorf("%s %s: %s; not heard: %+v", report.Outcome, report.Reason, report.Message, report.Unheard)
	}
	l.nothingLeft(10 * time.Second)
}

package e2e

import (
	"os"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
)

// finalWithin is how long after the end of an outage a run is final, whatever is lost
// and stays lost.
const finalWithin = 5 * time.Minute

// realWaits starts a drill of 30 s with a real run's waits.
func (l *lab) realWaits() (c *controller, id string) {
	l.t.Helper()
	c = l.controller("c", nil)
	l.stub(10, "ns1", "ns2")
	l.stub(11, "ns1")
	time.Sleep(2 * time.Second)
	var report run.Report
	c.call("POST", drill("ns1"), view.DrillRequest{Everyone: true, DurationSeconds: 30, Reason: "e2e"}, &report)
	l.eventually(45*time.Second, "ns1 is out", func() bool { return l.drilled("ns1") != "" })
	return c, report.ID
}

func (c *controller) finalInTime(id string) run.Report {
	c.l.t.Helper()
	report := c.final(id, 10*time.Minute)
	if report.Ended == nil {
		c.l.t.Fatalf("no end: %+v", report)
	}
	took := time.Since(*report.Ended)
	c.l.t.Logf("%s %s, final %s after the end of the outage", report.Outcome, report.Reason, took.Round(time.Second))
	if took > finalWithin+2*time.Second {
		c.l.t.Errorf("final only %s after the end of the outage", took)
	}
	return report
}

func longOnly(t *testing.T) {
	t.Helper()
	if os.Getenv("FIREBREAK_SOAK") == "" {
		t.Skip("real waits take seven minutes: make soak")
	}
}

// The drilled server dies while it is out and stays dead.
func TestLongServerGone(t *testing.T) {
	longOnly(t)
	l := newLab(t, 122)
	c, id := l.realWaits()
	time.Sleep(3 * time.Second)
	l.ns["ns1"].kill()
	report := c.finalInTime(id)
	if report.Outcome != run.Failed || report.Reason != run.NotBack || unheard(report, "ns1") == nil {
		t.Errorf("%s %s: %s; not heard: %+v", report.Outcome, report.Reason, report.Message, report.Unheard)
	}
	l.server("ns1")
	l.nothingLeft(10 * time.Second)
}

// The other server is out of the controller's reach for good.
func TestLongPeerUnreachable(t *testing.T) {
	longOnly(t)
	l := newTLSLab(t, 123)
	b := l.intercept("ns2")
	c, id := l.realWaits()
	time.Sleep(3 * time.Second)
	b.cut()
	l.incomplete(c.finalInTime(id), "its recording could not be read")
	l.nothingLeft(10 * time.Second)
}

package e2e

import (
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
)

// The drilled server is out of the controller's reach for longer than its lease: it
// answers again by itself, and the run ends when it is reached.
func TestDrilledServerUnreachable(t *testing.T) {
	l := newTLSLab(t, 124)
	b := l.intercept("ns1")
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	id := c.begin(120)
	time.Sleep(time.Second)
	b.cut()
	cut := time.Now()
	l.eventually(31*time.Second, "ns1 answers again", func() bool { return l.answers("ns1") })
	t.Logf("ns1 answered again %s after it was out of reach", time.Since(cut).Round(100*time.Millisecond))
	c.phase(id, run.Back, 15*time.Second)
	b.mend()
	report := c.final(id, 15*time.Second)
	if report.Outcome != run.Stopped || report.Reason != run.ServerLost {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	if v := l.verdict(report, 10); v != run.Followed {
		t.Errorf("its recording is there, and the client is %q", v)
	}
	if report.Started == nil || report.Ended == nil || report.Ended.Sub(*report.Started) > 45*time.Second {
		t.Errorf("by the report it was out from %v to %v", report.Started, report.Ended)
	}
	l.nothingLeft(10 * time.Second)
}

// Out of reach for less than its lease: nothing comes of it.
func TestDrilledServerUnreachableForAWhile(t *testing.T) {
	l := newTLSLab(t, 125)
	b := l.intercept("ns1")
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	id := c.begin(25)
	time.Sleep(time.Second)
	b.cut()
	time.Sleep(12 * time.Second)
	if l.drilled("ns1") != id {
		t.Error("ns1 is not out any more")
	}
	b.mend()
	report := c.final(id, 40*time.Second)
	if report.Outcome != run.Passed {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	l.nothingLeft(10 * time.Second)
}

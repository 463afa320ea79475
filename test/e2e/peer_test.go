package e2e

import (
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// peerLab has a proxy before ns2, and two clients: one with both servers, one that
// would be stuck.
func peerLab(t *testing.T, net int) (*lab, *between) {
	t.Helper()
	l := newTLSLab(t, net)
	b := l.intercept("ns2")
	l.stub(10, "ns1", "ns2")
	l.stub(11, "ns1")
	return l, b
}

// incomplete: the client that seems stuck is unknown, since ns2 may have answered
// it; ns2 is named, with why; and the run is no proof.
func (l *lab) incomplete(report run.Report, why string) {
	l.t.Helper()
	if report.Outcome != run.Failed || report.Reason != run.Incomplete {
		l.t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	if v := l.verdict(report, 11); v != run.Unknown {
		l.t.Errorf("the client without a second server: %q", v)
	}
	u := unheard(report, "ns2")
	if u == nil || !strings.Contains(u.Why, why) {
		l.t.Errorf("not heard: %+v, want ns2 and %q", report.Unheard, why)
	}
	if report.Verdicts.Stuck != 0 {
		l.t.Errorf("stuck: %d", report.Verdicts.Stuck)
	}
	if !strings.Contains(report.Message, "ns2") {
		l.t.Errorf("ns2 is not named in %q", report.Message)
	}
}

func TestPeerUnreachableFromTheStart(t *testing.T) {
	l, b := peerLab(t, 104)
	b.cut()
	c := l.controller("c", short())
	time.Sleep(2 * time.Second)
	report := c.final(c.begin(15), 50*time.Second)
	l.incomplete(report, "does not answer")
	if u := unheard(report, "ns2"); u != nil && u.From != nil {
		t.Errorf("it listened from %s", u.From)
	}
	l.nothingLeft(10 * time.Second)
}

// ns2's part is lost in the middle. What it told while the drill was on stands.
func TestPeerUnreachableInMidDrill(t *testing.T) {
	l, b := peerLab(t, 105)
	c := l.controller("c", short())
	time.Sleep(2 * time.Second)
	id := c.begin(15)
	time.Sleep(5 * time.Second)
	b.cut()
	report := c.final(id, 50*time.Second)
	l.incomplete(report, "its recording could not be read")
	if v := l.verdict(report, 10); v != run.Followed {
		t.Errorf("the client that ns2 was seen to answer: %q", v)
	}
	// ns2 is reached again: what it still has is taken back, or ends by itself.
	b.mend()
	l.nothingLeft(30 * time.Second)
}

// ns2 is reached only when the server is out already: its part says from when.
func TestPeerComesLate(t *testing.T) {
	l, b := peerLab(t, 106)
	b.cut()
	c := l.controller("c", short())
	time.Sleep(2 * time.Second)
	id := c.begin(15)
	time.Sleep(5 * time.Second)
	b.mend()
	mended := time.Now()
	report := c.final(id, 50*time.Second)
	l.incomplete(report, "began to record late")
	u := unheard(report, "ns2")
	if u == nil || u.From == nil {
		t.Fatalf("from when it listened is not said: %+v", report.Unheard)
	}
	if late := u.From.Sub(mended); late < -100*time.Millisecond || late > 6*time.Second {
		t.Errorf("it is said to have listened from %s after it was reached", late)
	}
	if report.Started == nil || u.From.Before(*report.Started) {
		t.Errorf("from %s, and the outage began at %v", u.From, report.Started)
	}
	if v := l.verdict(report, 10); v != run.Followed {
		t.Errorf("the client that ns2 answered later: %q", v)
	}
	l.nothingLeft(10 * time.Second)
}

// A peer that takes longer to be told to record than it is waited for is not lost to
// the report: its state tells that it does, and its part from when.
func TestPeerSlow(t *testing.T) {
	l, b := peerLab(t, 107)
	c := l.controller("c", short())
	time.Sleep(2 * time.Second)
	b.set(slow(time.Second, 4*time.Second))
	id := c.begin(15)
	report := c.final(id, 50*time.Second)
	if b.struck.Load() == 0 {
		t.Fatal("nothing was slow")
	}
	l.incomplete(report, "began to record late")
	if u := unheard(report, "ns2"); u == nil || u.From == nil || report.Started == nil || u.From.Sub(*report.Started) > 6*time.Second {
		t.Errorf("the outage began at %v; not heard: %+v", report.Started, report.Unheard)
	}
	if v := l.verdict(report, 10); v != run.Followed {
		t.Errorf("the client with two servers: %q", v)
	}
	b.set(pass)
	l.nothingLeft(10 * time.Second)
}

// A peer whose recording never ends holds nothing up.
func TestPeerEndless(t *testing.T) {
	l, b := peerLab(t, 108)
	c := l.controller("c", short())
	time.Sleep(2 * time.Second)
	id := c.begin(15)
	b.set(only("GET", protocol.PathRecordings, endless))
	report := c.final(id, 50*time.Second)
	if b.struck.Load() == 0 {
		t.Fatal("nothing was endless")
	}
	l.incomplete(report, "its recording could not be read")
	if report.Ended == nil || time.Since(*report.Ended) > 20*time.Second {
		t.Errorf("the outage ended at %v, and the report is there only now", report.Ended)
	}
	b.set(pass)
	l.nothingLeft(10 * time.Second)
}

// A peer of a version that is too far from the controller's is not asked to record,
// and the report says why.
func TestPeerOfAnotherVersion(t *testing.T) {
	l, b := peerLab(t, 109)
	b.set(ofVersion("1.9.0"))
	c := l.controller("c", short())
	time.Sleep(2 * time.Second)
	ask := view.DrillRequest{Everyone: true, DurationSeconds: 15, Reason: "e2e", DryRun: true}
	var plan run.Plan
	c.call("POST", drill("ns1"), ask, &plan)
	warned := false
	for _, w := range plan.Warnings {
		warned = warned || w.Kind == run.WarnCannotRecord && strings.Contains(w.Message, "1.9.0")
	}
	if !plan.Allowed || !warned {
		t.Errorf("allowed %v, warnings %+v", plan.Allowed, plan.Warnings)
	}
	report := c.final(c.begin(15), 50*time.Second)
	l.incomplete(report, "it is version 1.9.0, and this controller of version "+ourVersion)
	if s := l.state("ns2"); s.Recording != nil {
		t.Error("it was asked to record")
	}
	l.nothingLeft(10 * time.Second)
}

// A peer is another version after a restart in the middle: the restart stops the
// drill, whatever version it is.
func TestPeerUpgradedInMidDrill(t *testing.T) {
	l, b := peerLab(t, 110)
	c := l.controller("c", short())
	time.Sleep(2 * time.Second)
	id := c.begin(120)
	b.set(ofVersion("1.9.0"))
	l.ns["ns2"].kill()
	l.server("ns2")
	l.eventually(5*time.Second, "ns1 answers again", func() bool { return l.answers("ns1") })
	report := c.final(id, 30*time.Second)
	if report.Outcome != run.Stopped || report.Reason != run.OtherServerLost {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	if u := unheard(report, "ns2"); u == nil || !strings.Contains(u.Why, "1.9.0") {
		t.Errorf("not heard: %+v", report.Unheard)
	}
	l.nothingLeft(10 * time.Second)
}

// A server of a version that is too far from the controller's is not drilled.
func TestServerOfAnotherVersion(t *testing.T) {
	l := newTLSLab(t, 111)
	b := l.intercept("ns1")
	b.set(ofVersion("0.9.0"))
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	var p view.RefusedProblem
	c.call("POST", drill("ns1"), view.DrillRequest{Everyone: true, Reason: "e2e"}, &p)
	if p.Reason != run.TargetTooOld || !strings.Contains(p.Detail, "0.9.0") {
		t.Errorf("%s: %s", p.Reason, p.Detail)
	}
	if s := l.state("ns1"); s.Drill != nil || s.Recording != nil {
		t.Error("it was touched")
	}
	l.nothingLeft(5 * time.Second)
}

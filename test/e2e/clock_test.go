package e2e

import (
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
)

func offset(by time.Duration) string { return "FIREBREAK_TEST_CLOCK_OFFSET=" + by.String() }

// skewedLab has programs whose clocks can be off.
func skewedLab(t *testing.T, net int, ns1, ns2 time.Duration) *lab {
	t.Helper()
	l := emptyLab(t, net, nil)
	var err error
	if l.bin, err = skewed(); err != nil {
		t.Fatal(err)
	}
	l.envs = map[string][]string{"ns1": {offset(ns1)}, "ns2": {offset(ns2)}}
	l.servers()
	return l
}

// timely: the client followed as fast as it really did, which is after one timeout
// of a stub, give or take what the report says.
func (l *lab) timely(report run.Report, host int) {
	l.t.Helper()
	if report.ClockErrorMs > 500 {
		l.t.Errorf("times are said to be off by up to %d ms, on one machine", report.ClockErrorMs)
	}
	for _, c := range report.Clients {
		if c.Address != l.ip(host) {
			continue
		}
		if c.Verdict != run.Followed || c.FailoverSeconds == nil || *c.FailoverSeconds < 0.2-float64(report.ClockErrorMs)/1000 || *c.FailoverSeconds > 1.5 {
			l.t.Errorf("%+v, give or take %d ms", c, report.ClockErrorMs)
		}
		return
	}
	l.t.Error("the client is not in the report")
}

// The clocks of the servers are 6 s apart, and both off from the controller's.
func TestServersClocksApart(t *testing.T) {
	l := skewedLab(t, 119, 3*time.Second, -3*time.Second)
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	if apart := l.state("ns1").Now.Sub(l.state("ns2").Now); apart < 5*time.Second {
		t.Fatalf("the clocks are %s apart", apart)
	}
	report := c.final(c.begin(15), 50*time.Second)
	if report.Outcome != run.Passed {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	l.timely(report, 10)
	l.nothingLeft(10 * time.Second)
}

// The controller's clock is set while it is away, in the middle of a drill: it goes
// on with the drill, for as long as was ordered, and the times of the report fit.
func TestControllersClockSet(t *testing.T) {
	t.Parallel()
	for net, by := range map[int]time.Duration{120: time.Hour, 121: -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			l := skewedLab(t, net, 0, 0)
			c := l.controller("c", short())
			l.stub(10, "ns1", "ns2")
			time.Sleep(2 * time.Second)
			began := time.Now()
			id := c.begin(20)
			time.Sleep(3 * time.Second)
			c.kill()
			c = l.controller("c", append(short(), offset(by)))
			if got := l.drilled("ns1"); got != id {
				t.Errorf("drilled: %q", got)
			}
			report := c.final(id, time.Minute)
			if report.Outcome != run.Passed {
				t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
			}
			l.timely(report, 10)
			if report.Started == nil || report.Ended == nil {
				t.Fatalf("started %v, ended %v", report.Started, report.Ended)
			}
			if lasted := report.Ended.Sub(*report.Started); (lasted - 20*time.Second).Abs() > 2*time.Second {
				t.Errorf("it lasted %s by the report", lasted)
			}
			if off := report.Started.Sub(began.Add(by)); off < 0 || off > 15*time.Second {
				t.Errorf("on the clock as it is now, the outage began %s after it was asked for", off)
			}
			l.nothingLeft(10 * time.Second)
		})
	}
}

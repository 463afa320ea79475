package e2e

import (
	"net/http"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
)

// Every answer to a call that starts something is lost: servers do as they were
// told, nobody says so, and what they tell of themselves has to do.
func TestAnswersToOrdersLost(t *testing.T) {
	t.Parallel()
	for net, lost := range map[int]fault{112: silent, 113: cutOff} {
		t.Run(map[int]string{112: "in silence", 113: "with the connection"}[net], func(t *testing.T) {
			l := newTLSLab(t, net)
			at := []*between{l.intercept("ns1"), l.intercept("ns2")}
			c := l.controller("c", short())
			l.stub(10, "ns1", "ns2")
			time.Sleep(2 * time.Second)
			for _, b := range at {
				b.set(only(http.MethodPut, "/v1/", lost))
			}
			report := c.final(c.begin(15), 50*time.Second)
			if report.Outcome != run.Passed {
				t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
			}
			if len(report.Unheard) != 0 {
				t.Errorf("not heard: %+v", report.Unheard)
			}
			if n := at[0].struck.Load(); n < 2 {
				t.Errorf("%d answers of ns1 were lost: one to its recording, one to its order", n)
			}
			if at[1].struck.Load() == 0 {
				t.Error("no answer of ns2 was lost")
			}
			l.nothingLeft(10 * time.Second)
		})
	}
}

// Every answer to a call that ends something is lost: it ends all the same.
func TestAnswersToEndsLost(t *testing.T) {
	t.Parallel()
	for net, lost := range map[int]fault{114: silent, 115: cutOff} {
		t.Run(map[int]string{114: "in silence", 115: "with the connection"}[net], func(t *testing.T) {
			l := newTLSLab(t, net)
			at := []*between{l.intercept("ns1"), l.intercept("ns2")}
			c := l.controller("c", short())
			l.stub(10, "ns1", "ns2")
			time.Sleep(2 * time.Second)
			for _, b := range at {
				b.set(only(http.MethodDelete, "/v1/", lost))
			}
			id := c.begin(120)
			var stopped run.Report
			c.call("DELETE", drill("ns1"), view.StopRequest{Why: "enough"}, &stopped)
			l.eventually(2*time.Second, "ns1 answers again", func() bool { return l.answers("ns1") })
			report := c.final(id, 40*time.Second)
			if report.Outcome != run.Stopped || report.Reason != run.StoppedByCaller {
				t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
			}
			l.nothingLeft(10 * time.Second)
			if at[0].struck.Load() < 2 || at[1].struck.Load() == 0 {
				t.Errorf("lost were %d answers of ns1 and %d of ns2", at[0].struck.Load(), at[1].struck.Load())
			}
		})
	}
}

//go:build linux

package stubs

import (
	"testing"
)

// check holds the report to the truth, client by client.
func (m *matrix) check(t *testing.T) {
	t.Logf("%s: %s %s: %s", m.mode, m.report.Outcome, m.report.Reason, m.report.Message)
	for _, e := range m.report.Timeline {
		t.Logf("%s %s", e.At.Format("15:04:05.000"), e.What)
	}
	for _, c := range m.cells {
		lost, rescued := c.truth.lost()
		failed := 0
		for _, l := range c.lookups {
			if !l.ok() {
				failed++
			}
		}
		var fo, rep any
		if !c.elsewhere.IsZero() {
			fo = c.elsewhere.Sub(c.first).Seconds()
		}
		if c.report != nil && c.report.FailoverSeconds != nil {
			rep = *c.report.FailoverSeconds
		}
		t.Logf("%-22s truth %s drilled %d lost %d (rescued %d) failover %v strays %d lookups %d failed %d", c.Name, c.verdict, len(c.drilled), lost, rescued, fo, len(c.strays), len(c.lookups), failed)
		for _, q := range c.strays {
			t.Logf("   stray %s %v->%v(%v) id %d %s %d answered %v rcode %d", q.At.Format("15:04:05.000"), q.Port, q.Asked, q.Server, q.ID, q.Name, q.Type, q.Answered, q.Rcode)
		}
		if c.report != nil {
			t.Logf("%-22s said  %s drilled %d lost %d sampled %v failover %v returned %s", "", c.report.Verdict, c.report.Drilled, c.report.Lost, c.report.LostSampled, rep, c.report.Returned)
		}
	}
}

//go:build linux

package stubs

import (
	"slices"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/test/stubs/wire"
)

// settle is how long before the end of an outage a lookup must begin to count as
// one of the outage: later ones are helped by its end.
const settle = 10 * time.Second

// felt is what a client's users felt in an outage.
type felt struct {
	verdict        run.Verdict
	failover       time.Duration // negative: none, or it asked several servers all along
	median, slow   time.Duration // of lookups
	lookups, fails int
	queries        float64 // for each question
	queriesBefore  float64
	returned       run.Return
}

func (m *matrix) felt(c *cell) felt {
	f := felt{verdict: c.report.Verdict, failover: -1, returned: c.report.Returned}
	if s := c.report.FailoverSeconds; s != nil && !c.several() {
		f.failover = seconds(*s)
	}
	from, to := m.outage.start, m.outage.end.Add(-settle)
	var took []time.Duration
	for _, l := range c.lookups {
		if l.Start.Before(from) || l.Start.After(to) {
			continue
		}
		f.lookups++
		took = append(took, l.took())
		if !l.ok() {
			f.fails++
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		f.median, f.slow = took[len(took)/2], took[len(took)-1]
	}
	f.queries = perQuestion(c.queries, from, to)
	f.queriesBefore = perQuestion(c.queries, from.Add(-warmUp), from.Add(-time.Second))
	return f
}

// several says whether a client used more servers than one before the drill:
// then it had nothing to fail over to that it did not use already, and a report
// has a time only if its recordings began too late to see that.
func (c *cell) several() bool { return !c.before.IsZero() && c.before.After(c.first.Add(-settle)) }

// perQuestion is how many queries the client sent for each question that it first
// asked in a span of time.
func perQuestion(queries []wire.Query, from, to time.Time) float64 {
	type question struct {
		name  string
		qtype uint16
	}
	asked := map[question]int{}
	n := 0
	for _, q := range queries {
		k := question{q.Name, q.Type}
		if _, again := asked[k]; !again && (q.At.Before(from) || q.At.After(to)) {
			continue
		}
		asked[k]++
		n++
	}
	if len(asked) == 0 {
		return 0
	}
	return float64(n) / float64(len(asked))
}

//go:build linux

package stubs

import (
	"net/netip"
	"slices"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/test/stubs/wire"
)

// The rules of docs/verdicts.md, said once more: the test is to find out if the
// product has others.
const (
	grace      = 5 * time.Second // an answer elsewhere counts so long past the end
	stuckAt    = 3               // drilled queries
	retry      = 6 * time.Second // a question asked again later is another one
	wireSlack  = 50 * time.Millisecond
	recordLead = 2 * time.Second // recordings begin at most so long before the outage
	warmUp     = 3 * time.Second // before the outage, that is the run's Reading, all is to be well
)

// outage is when and where a drill was on.
type outage struct {
	server     netip.Addr
	start, end time.Time
}

// truth is what really happened to a client in a drill, from its packets.
type truth struct {
	verdict       run.Verdict
	drilled       []wire.Query // no answer, or REFUSED
	first         time.Time    // of drilled
	elsewhere     time.Time    // first answer of another server since
	elsewhereName string       // to this question
	before        time.Time    // last answer of another server before the first drilled one
	questions     []question   // drilled ones
	strays        []wire.Query // got no answer although no drill was on
}

// question is one question of a client, with all its copies.
type question struct {
	name        string
	qtype       uint16
	first, last time.Time // drilled copies
	elsewhere   bool      // another server answered it
	rescued     bool      // the drilled server itself did, after the end
}

// lost is a question that nobody answered.
func (q question) lost() bool { return !q.elsewhere && !q.rescued }

// findTruth looks at everything that a client asked. What was sent in the last
// moments before the capture ended may have an answer that it did not see.
func findTruth(queries []wire.Query, o outage, captured time.Time) truth {
	var t truth
	for _, q := range queries {
		if q.Served() || q.At.After(captured.Add(-time.Second)) {
			continue
		}
		if q.Server == o.server && q.At.After(o.start.Add(-wireSlack)) && q.At.Before(o.end.Add(wireSlack)) {
			t.drilled = append(t.drilled, q)
		} else if q.At.After(o.start.Add(-warmUp)) {
			t.strays = append(t.strays, q)
		}
	}
	if len(t.drilled) > 0 {
		t.first = t.drilled[0].At
	}
	for _, q := range queries {
		if q.Server == o.server || !q.Served() || t.first.IsZero() {
			continue
		}
		switch {
		case q.Answered.Before(t.first):
			if q.Answered.After(t.before) {
				t.before = q.Answered
			}
		case q.Answered.Before(o.end.Add(grace)) && (t.elsewhere.IsZero() || q.Answered.Before(t.elsewhere)):
			t.elsewhere, t.elsewhereName = q.Answered, q.Name
		}
	}
	t.questions = questions(t.drilled, queries, o)
	switch {
	case !t.elsewhere.IsZero():
		t.verdict = run.Followed
	case len(t.drilled) >= stuckAt:
		t.verdict = run.Stuck
	case len(t.drilled) == 0 && !knew(queries, o):
		t.verdict = run.Elsewhere
	default:
		t.verdict = run.Quiet
	}
	return t
}

// knew says whether the server knew the client before: it takes two queries.
func knew(queries []wire.Query, o outage) bool {
	n := 0
	for _, q := range queries {
		if q.Server == o.server && q.At.Before(o.start) {
			n++
		}
	}
	return n > 1
}

// questions groups the drilled queries, and says which were answered after all.
func questions(drilled, all []wire.Query, o outage) []question {
	var out []question
	for _, q := range drilled {
		i := slices.IndexFunc(out, func(x question) bool {
			return x.name == q.Name && x.qtype == q.Type && q.At.Sub(x.last) <= retry
		})
		if i < 0 {
			out = append(out, question{name: q.Name, qtype: q.Type, first: q.At, last: q.At})
		} else {
			out[i].last = q.At
		}
	}
	for i := range out {
		x := &out[i]
		for _, q := range all {
			if q.Name != x.name || q.Type != x.qtype || !q.Served() {
				continue
			}
			// A client that asks two at once may have the other's answer before this
			// one was taken: it lost nothing.
			if q.Server != o.server {
				x.elsewhere = x.elsewhere || q.Answered.After(x.first.Add(-wireSlack)) && q.Answered.Before(x.last.Add(retry))
			} else {
				x.rescued = x.rescued || q.Answered.After(x.first) && q.Answered.Before(x.last.Add(retry))
			}
		}
	}
	return out
}

func (t truth) lost() int {
	n := 0
	for _, q := range t.questions {
		if q.lost() {
			n++
		}
	}
	return n
}

// returns says what a report may say of whether a client came back to the server
// once it answered again. The controller asks returnAfter the end or somewhat
// later: who came back only then may be told either way.
func returns(queries []wire.Query, o outage) []run.Return {
	from, to := o.end.Add(grace), o.end.Add(returnAfter)
	here, near, there := false, false, false
	for _, q := range queries {
		switch {
		case q.At.Before(from.Add(-wireSlack)):
		case q.Server != o.server:
			there = true
		case q.At.After(from.Add(wireSlack)) && q.At.Before(to.Add(-wireSlack)):
			here = true
		default:
			near = true
		}
	}
	switch {
	case here:
		return []run.Return{run.Returned}
	case near && there:
		return []run.Return{run.Returned, run.Sticky}
	case near:
		return []run.Return{run.Returned, run.ReturnUnknown}
	case there:
		return []run.Return{run.Sticky}
	}
	return []run.Return{run.ReturnUnknown}
}

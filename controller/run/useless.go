package run

import (
	"fmt"
	"strings"
	"time"
)

// Answers that come and help no client: that a name does not exist which the
// drilled server knows, and those for which nobody waits any more. Without these
// bounds the client that gets them has failed over, and has lost nothing.
const (
	denialsAbove = 0.2001          // above the usual share: 20 points, and what sums of decimals are off by
	tooSlow      = 1 * time.Second // a bound of protocol.LatencyBoundsMs: the least that clients are set to wait
	minAnswers   = 20              // fewer are no sign of anything, before and during
)

// judgeAfter is for how long the outage has to be on: where each query waits out
// a timeout of 5 s first, the denials of a search list come some 20 s before the
// answer that ends it. Shorter outages are judged at their end.
const judgeAfter = 30 * time.Second

// judged asks a rule once there is enough to judge by.
func (r *Run) judged(now time.Time, rule func() string) string {
	if r.Started.IsZero() || now.Sub(r.Started) < judgeAfter {
		return ""
	}
	return rule()
}

// findOutAnswers adds what answers showed over the whole outage.
func (r *Run) findOutAnswers() {
	if m := r.denialsRising(); m != "" {
		r.find(DenialsRising, "%s", m)
	}
	if m := r.answersTooSlow(); m != "" {
		r.find(AnswersTooSlow, "%s", m)
	}
}

// denialsRising compares each survivor by itself: beside one that denies
// everything, another that is busy would hide it.
func (r *Run) denialsRising() string {
	var drilled tally
	if m := r.Traffic[r.Spec.Server]; m != nil {
		drilled = m.baseline()
	}
	for _, name := range sortedKeys(r.Traffic) {
		m := r.Traffic[name]
		if !r.survives(name) {
			continue
		}
		during := m.outage()
		usual, known := usualDenials(m.baseline(), drilled)
		if known && during.told >= minAnswers && during.denialShare()-usual > denialsAbove {
			return fmt.Sprintf("%.1f %% of the %d answers of %s were NXDOMAIN (usual: %.1f %%): to clients, names are gone that were there before. %s",
				100*during.denialShare(), during.answers, name, 100*usual,
				r.byStage(fmt.Sprintf("Does %s have every zone of %s?", name, r.Spec.Server), "Do its other upstreams know every zone of "+r.Spec.Upstream+"?"))
		}
	}
	return ""
}

// usualDenials is the share that is usual for clients of either server, the
// larger one: clients with search domains, who get many, bring theirs along. It
// is not known where the drilled server does not count them, or both answered
// too little.
func usualDenials(own, drilled tally) (share float64, known bool) {
	if drilled.told < drilled.answers {
		return 0, false
	}
	for _, t := range []tally{own, drilled} {
		if t.told >= minAnswers {
			share, known = max(share, t.denialShare()), true
		}
	}
	return share, known
}

func (r *Run) answersTooSlow() string {
	names := r.slow((*Meter).outage)
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("half of the answers of %s took more than %.0f s: many clients give up before that, so what was answered was lost on them", strings.Join(names, " and of "), tooSlow.Seconds())
}

// slow are the survivors half of whose answers took longer than tooSlow.
func (r *Run) slow(f func(*Meter) tally) []string {
	var names []string
	for _, name := range sortedKeys(r.Traffic) {
		if !r.survives(name) {
			continue
		}
		if t := f(r.Traffic[name]); t.answers >= minAnswers && t.quantile(0.5) > float64(tooSlow.Milliseconds()) {
			names = append(names, name)
		}
	}
	return names
}

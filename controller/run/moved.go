package run

import (
	"slices"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// movedSpan is over how long queries are counted to see that they fell.
const movedSpan = 3 * time.Second

// movedAtLeast queries in movedSpan before: fewer say nothing when they stop.
const movedAtLeast = 10

// watch notes when the outage was noticed and when traffic had moved.
func (r *Run) watch(o *Observation, now time.Time) {
	if r.Spec.OfUpstream() {
		r.watchUpstream(o)
		return
	}
	t := o.Facts.Server(r.Spec.Server)
	byBalancer := t != nil && t.Routed != nil && r.Before[r.Spec.Server].Routed && r.Spec.Readiness == protocol.ReadinessFail
	if byBalancer && !*t.Routed && r.SwitchAt.IsZero() {
		r.SwitchAt = now
		r.note(now, "the balancer dropped %s", r.Spec.Server)
	}
	if r.NoticedAt.IsZero() {
		if byBalancer {
			r.NoticedAt = r.SwitchAt
		} else if addr, a, ok := r.firstAnswered(); ok {
			r.NoticedAt = latest(r.Started, time.UnixMilli(a.AtMs).UTC())
			r.note(r.NoticedAt, "%s was answered by %s", r.named(addr), a.Server)
		}
	}
	switch moved := r.moved(); {
	case r.NoticedAt.IsZero():
	case !moved: // it may seem so while only the first ones have asked
		r.MovedAt = time.Time{}
	case r.MovedAt.IsZero():
		r.MovedAt = now
		if at := r.movedByAnswers(); !at.IsZero() {
			r.MovedAt = latest(r.NoticedAt, at)
		}
		if !r.MovedSaid {
			r.note(r.MovedAt, "traffic has moved")
		}
		r.MovedSaid = true
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (r *Run) firstAnswered() (addr string, a Answer, ok bool) {
	for _, c := range sortedKeys(r.Answered) {
		if x := r.Answered[c]; !ok || x.AtMs < a.AtMs {
			addr, a, ok = c, x, true
		}
	}
	return addr, a, ok
}

func (r *Run) named(addr string) string {
	if n := r.Names[addr]; n != "" {
		return n + " (" + addr + ")"
	}
	return addr
}

// moved: 90 % of its drilled targets were answered elsewhere, or its queries
// fell to a tenth of what they were.
func (r *Run) moved() bool { return !r.movedByAnswers().IsZero() || r.queriesFell() }

// movedByAnswers is when 90 % of the drilled targets had been answered elsewhere.
func (r *Run) movedByAnswers() time.Time {
	if len(r.Drilled) == 0 {
		return time.Time{}
	}
	// Those that may be stuck are not waited for.
	count := max(1, len(r.Drilled)-r.Spec.Limits.Stuck)
	need := (9*count + 9) / 10
	if len(r.Answered) < need {
		return time.Time{}
	}
	at := make([]int64, 0, len(r.Answered))
	for _, a := range r.Answered {
		at = append(at, a.AtMs)
	}
	slices.Sort(at)
	return time.UnixMilli(at[need-1]).UTC()
}

func (r *Run) queriesFell() bool {
	m := r.Traffic[r.Spec.Server]
	if m == nil {
		return false
	}
	base := m.baseline()
	if base.ms == 0 {
		return false
	}
	usual := float64(base.queries) / float64(base.ms) * float64(movedSpan.Milliseconds())
	from, to, ok := m.span(movedSpan)
	if !ok || usual < movedAtLeast || from.NowMs < m.OutFrom.NowMs {
		return false
	}
	now := between(from, to)
	return float64(now.queries)/float64(max(now.ms, 1))*float64(movedSpan.Milliseconds()) <= usual/10
}

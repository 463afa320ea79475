package run

import (
	"slices"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// advanceBack puts everything back, and waits until it is as it was.
func (r *Run) advanceBack(o *Observation, now time.Time) []Action {
	t := o.Facts.Server(r.Spec.Server)
	ended := r.ended(t, now)
	if ended && r.Returned.IsZero() && r.asBefore(t) {
		r.Returned = now
		r.enter(Recording, now, "back: %s", r.byStage(r.Spec.Server+" answers as before; recordings run on", r.upstreamBack(t)))
		return nil
	}
	if now.Sub(r.Since) >= BackSeconds*time.Second {
		r.find(NotBack, "%s is not as it was %d s after the end: %s", r.Spec.Server, BackSeconds, r.whatIsMissing(t, ended))
		if !ended { // it never said so: its own clock has ended it by now
			r.Ended = r.endedByItself()
		}
		r.enter(Recording, now, "%s is not back", r.Spec.Server)
		return nil
	}
	if ended || now.Before(r.NextTry) {
		return nil
	}
	r.NextTry = now.Add(tryEvery)
	if now.Sub(r.Since) >= endOften {
		r.NextTry = now.Add(endEveryLate)
	}
	return []Action{r.onDrill(ActEnd)}
}

// endedByItself is the latest moment at which a drill's server can have ended it
// that says nothing any more: at its planned end, or once the lease was over that
// nobody renews while the run goes back.
func (r *Run) endedByItself() time.Time {
	lease := r.Since.Add(protocol.LeaseSeconds * time.Second)
	if r.EndsAt.IsZero() || lease.Before(r.EndsAt) {
		return lease
	}
	return r.EndsAt
}

// ended reports whether the drill has surely ended: its server said so, or the
// process that had it is gone.
func (r *Run) ended(t *ServerFacts, now time.Time) bool {
	if r.Ended.IsZero() && t != nil && t.Heard && t.State.BootID != r.drilled().BootID {
		r.Ended = now
	}
	return !r.Ended.IsZero()
}

// asBefore: reached, answering, ready and in its Service, as it was.
func (r *Run) asBefore(t *ServerFacts) bool { return r.whatIsMissing(t, true) == "" }

func (r *Run) whatIsMissing(t *ServerFacts, ended bool) string {
	before := r.Before[r.Spec.Server]
	switch {
	case t == nil:
		return "it is no longer in the fleet"
	case !t.Heard:
		return "its control endpoint does not answer: " + orNothing(t.Error)
	case !ended:
		return "it did not confirm the end of the drill"
	case before.Ready && (t.Ready == nil || !*t.Ready):
		return "it is not ready"
	case before.Routed && (t.Routed == nil || !*t.Routed):
		return "it is not back in its Service"
	case !t.LastProbe.After(r.Ended) && !t.LastAnswer.After(r.Ended):
		return "it does not answer: " + orNothing(t.ProbeError)
	case r.Spec.OfUpstream():
		return r.upstreamNotBack(t)
	}
	return ""
}

// tailEnds is when the recordings have run on for long enough.
func (r *Run) tailEnds() time.Time {
	return r.Ended.Add(time.Duration(r.Spec.Timings.TailSeconds) * time.Second)
}

// advanceRecording waits for every part, then judges.
func (r *Run) advanceRecording(now time.Time) []Action {
	// The order was never taken, or what it did shows in the server's counters: there
	// is nothing to read.
	if r.Started.IsZero() || r.Spec.OfUpstream() {
		r.finish(now)
		return nil
	}
	if now.Before(r.tailEnds()) {
		return nil
	}
	missing := false
	for _, p := range r.Peers {
		missing = missing || p.Listening && p.Part == nil
	}
	if missing && now.Before(r.partsBy()) {
		return nil
	}
	r.judge()
	r.finish(now)
	return nil
}

// partsBy is until when missing parts are asked for. It counts from the end of the
// outage and not from the phase's beginning: a run whose server does not come back
// is to be final in time, too.
func (r *Run) partsBy() time.Time {
	retry := time.Duration(r.Spec.Timings.RetrySeconds) * time.Second
	return latest(r.tailEnds().Add(retry), r.Since.Add(min(retry, partChance)))
}

// finish ends the run: the outcome stands, but for who returned.
func (r *Run) finish(now time.Time) {
	r.conclude()
	for _, p := range r.Peers {
		p.Part, p.NextTry = nil, time.Time{}
	}
	if r.Outcome == Refusal {
		r.enter(Refused, now, "refused: %s", r.Message)
		return
	}
	r.Amended = !slices.ContainsFunc(r.Clients, func(c ClientReport) bool { return c.Verdict == Followed })
	r.enter(Done, now, "%s: %s", r.Outcome, r.Message)
}

// returnsAt is when it is asked who returned.
func (r *Run) returnsAt() time.Time {
	return r.Ended.Add(time.Duration(r.Spec.Timings.ReturnSeconds) * time.Second)
}

// amend adds to the report who of those that followed asks the server again.
func (r *Run) amend(o *Observation, now time.Time) {
	if r.Amended || now.Before(r.returnsAt()) {
		return
	}
	t := o.Facts.Server(r.Spec.Server)
	late := now.After(r.returnsAt().Add(time.Duration(r.Spec.Timings.RetrySeconds) * time.Second))
	if (!o.Facts.WithSeen || t == nil || !t.Heard || o.Facts.Now.Before(r.returnsAt())) && !late {
		return
	}
	since := r.Ended.Add(followGrace)
	here, there := map[string]bool{}, map[string]bool{}
	for i := range o.Facts.Servers {
		s := &o.Facts.Servers[i]
		for _, c := range s.Seen {
			if !c.Last.After(since) {
				continue
			}
			if s.Name == r.Spec.Server {
				here[c.Address] = true
			} else {
				there[c.Address] = true
			}
		}
	}
	for i := range r.Clients {
		c := &r.Clients[i]
		if c.Verdict != Followed {
			continue
		}
		switch {
		case here[c.Address]:
			c.Returned = Returned
		case there[c.Address] && !late:
			c.Returned = Sticky
		default:
			c.Returned = ReturnUnknown
		}
	}
	r.Amended = true
	r.note(now, "asked who returned")
}

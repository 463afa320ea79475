package run

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Between tries of a call that came to nothing.
const (
	tryEvery   = 2 * time.Second
	renewEvery = 10 * time.Second
	// listenFor is how long servers are waited for to say that they record,
	// before the order goes out without them.
	listenFor = 1500 * time.Millisecond
	// listenRetry for a server that misses its recording; retried throughout.
	listenRetry = 5 * time.Second
	// endPatience is how long after its end, as we know it, a drill's server
	// is given to say so itself, before it is told.
	endPatience = 2 * time.Second
	// partChance is how long a part is asked for at least, however late that is:
	// one read may take so long.
	partChance = 30 * time.Second
	// unrecordFor a server that does not answer; recordings end by themselves.
	unrecordFor = time.Minute
	// endEveryLate is how often the end is asked for once endOften is over.
	endOften     = protocol.LeaseSeconds * time.Second
	endEveryLate = 10 * time.Second
)

// Step takes in what was observed and moves the run on. It returns the run as
// it is now and what is to be done; r itself is not changed. A run that is over
// stays as it is.
func Step(r Run, o Observation, now time.Time) (Run, []Action) {
	if r.Over() {
		return r, nil
	}
	r = r.clone()
	if o.Restarted {
		r.restarted(now)
	}
	r.takeIn(o, now)
	r.notInFuture(now)
	if o.Restarted && r.Phase == Recording {
		// Who was away for long has read no part yet, and servers keep them for a while.
		r.Since = now
	}
	// A phase may be over as soon as it is entered.
	var actions []Action
	for range 4 {
		before := r.Phase
		actions = append(actions, r.advance(&o, now)...)
		if r.Phase == before {
			break
		}
	}
	return r, actions
}

// restarted: another controller process goes on with this run.
func (r *Run) restarted(now time.Time) {
	r.Restarts++
	if r.Phase.Final() {
		return
	}
	r.note(now, "another controller process goes on with this run")
	for _, p := range r.Peers { // answers to what the last one asked are lost
		p.NextTry = time.Time{}
	}
	r.NextTry = time.Time{}
	if r.OrderSent.IsZero() {
		// Whoever asked for it does not expect it to begin at some later time.
		r.end(Stopped, ControllerLost, now, "the controller restarted before the drill began; nothing was changed")
	}
}

// advance moves the run through its phases.
func (r *Run) advance(o *Observation, now time.Time) []Action {
	switch r.Phase {
	case Planned:
		r.enter(Reading, now, "reading what is usual for %d s; nothing changes", r.Spec.Timings.ReadingSeconds)
	case Reading:
		if o.Stop != nil {
			r.end(Stopped, StoppedByCaller, now, "%s", stopMessage(o.Stop))
		} else if now.Sub(r.Since) >= time.Duration(r.Spec.Timings.ReadingSeconds)*time.Second {
			r.enter(Asking, now, "asking every guard again")
		}
	case Asking:
		if o.Stop != nil {
			r.end(Stopped, StoppedByCaller, now, "%s", stopMessage(o.Stop))
		} else if o.Facts.WithSeen && !o.Facts.Now.Before(r.Since) {
			r.ask(&o.Facts, now)
		}
	case Out:
		return r.advanceOut(o, now)
	case Noticed, Held:
		return r.advanceNoticed(o, now)
	case Back:
		return r.advanceBack(o, now)
	case Recording:
		return r.advanceRecording(now)
	case Done:
		r.amend(o, now)
		return r.unrecord(now)
	case Refused:
		return r.unrecord(now)
	}
	return nil
}

// ask is Asking: every guard, right before anything changes. What they allow is
// frozen, so that the order is for those whom they saw.
func (r *Run) ask(f *Facts, now time.Time) {
	f.Usual = r.usual()
	r.Checks = Guards(r.Spec, *f)
	if no := FirstRefusal(r.Checks); no != nil {
		r.refuse(no.Reason, no.Message, now)
		return
	}
	r.Targets = f.Resolved
	r.Never = neverDrilled(f)
	r.Names = maps.Clone(f.Names)
	several := answeredElsewhere(f, r.Spec.Server, severalFor(f))
	for _, c := range targetsSeen(r.Spec, f) {
		r.SeenHour = append(r.SeenHour, c.Address)
		if several[c.Address] {
			r.SeenElsewhere = append(r.SeenElsewhere, c.Address)
		}
	}
	r.Peers = map[string]*Peer{}
	r.Before = map[string]Standing{}
	for i := range f.Servers {
		t := &f.Servers[i]
		r.Before[t.Name] = Standing{
			BootID: t.State.BootID,
			Ready:  t.Ready != nil && *t.Ready, Routed: t.Routed != nil && *t.Routed, Healthy: healthy(t, now),
		}
		p := &Peer{OffsetMs: t.OffsetMs, ErrMs: t.OffsetErr, Error: t.whyNoPart()}
		if t.Heard {
			p.BootID, p.Version, p.Records = t.State.BootID, t.State.Version, t.Has(protocol.FeatureRecordings)
		}
		r.Peers[t.Name] = p
	}
	r.enter(Out, now, "every guard agrees; telling every server to record")
}

// severalWithin is how lately another server must have answered a client for it
// to be one that asks several.
const severalWithin = time.Minute

// severalFor is severalWithin, but not back into another drill: whom that one
// sent elsewhere does not ask several servers all along.
func severalFor(f *Facts) time.Duration {
	within := severalWithin
	for _, o := range f.Others {
		if !o.Ended.IsZero() {
			within = min(within, f.Now.Sub(o.Ended.Add(followGrace)))
		}
	}
	return within
}

func (r *Run) refuse(reason Reason, message string, now time.Time) {
	r.Outcome, r.Reason, r.Message = Refusal, reason, message
	for _, p := range r.Peers {
		p.NextTry = time.Time{} // what was begun is put back at once
	}
	r.enter(Refused, now, "refused: %s", message)
}

// advanceOut tells every server to record, then gives the order, then waits
// for somebody to notice.
func (r *Run) advanceOut(o *Observation, now time.Time) []Action {
	actions := r.record(now)
	if r.Started.IsZero() {
		if o.Stop != nil {
			r.end(Stopped, StoppedByCaller, now, "%s", stopMessage(o.Stop))
			return nil
		}
		if !o.Facts.Enabled {
			r.end(Stopped, SwitchedOff, now, "drills were switched off on the controller")
			return nil
		}
		if r.Reason == DrillRunning && r.OrderSent.IsZero() {
			// Another controller was quicker: give way, whoever it is.
			r.refuse(DrillRunning, r.Message, now)
			return nil
		}
		if now.Sub(r.Since) >= AckSeconds*time.Second {
			r.end(Failed, NotAcknowledged, now, "%s did not take the order within %d s: %s", r.Spec.Server, AckSeconds, orNothing(r.drilled().Error))
			return nil
		}
		return append(actions, r.give(now)...)
	}
	if r.stopped(o, now) {
		return nil
	}
	r.watch(o, now)
	if !r.NoticedAt.IsZero() {
		r.enter(Noticed, now, "noticed after %s", Seconds(r.NoticedAt.Sub(r.Started).Seconds()))
		return actions
	}
	return append(actions, r.untilEnd(now)...)
}

// stopped asks every stop rule.
func (r *Run) stopped(o *Observation, now time.Time) bool {
	for _, rule := range stopRules {
		if m := rule.ask(r, o, now); m != "" {
			r.end(rule.outcome, rule.reason, now, "%s", m)
			return true
		}
	}
	return false
}

// advanceNoticed holds the outage for its whole duration.
func (r *Run) advanceNoticed(o *Observation, now time.Time) []Action {
	if r.stopped(o, now) {
		return nil
	}
	r.watch(o, now)
	if r.Phase == Noticed && !r.MovedAt.IsZero() && now.Sub(r.MovedAt) >= HeldSeconds*time.Second && r.Ended.IsZero() {
		r.enter(Held, now, "held: %s for %d s", r.byStage("traffic has been away", r.Spec.Upstream+" has not been needed"), HeldSeconds)
	}
	return append(r.record(now), r.untilEnd(now)...)
}

// untilEnd keeps the drill's lease, and goes back once it has ended.
func (r *Run) untilEnd(now time.Time) []Action {
	over := !r.Ended.IsZero() || now.Sub(r.EndsAt) >= endPatience
	if over {
		if r.NoticedAt.IsZero() {
			r.find(NotNoticed, "%s by the end of its %d s", r.byStage("nobody noticed", r.Spec.Server+" had not ejected "+r.Spec.Upstream), r.Spec.Seconds)
		}
		r.NextTry = time.Time{}
		r.enter(Back, now, "its time is over")
		return nil
	}
	if now.Before(r.NextTry) || now.Add(tryEvery).After(r.EndsAt) {
		return nil
	}
	r.NextTry = now.Add(renewEvery)
	return []Action{r.onDrill(ActRenew)}
}

// byStage is one word for a server's drill and another one for an upstream's.
func (r *Run) byStage(server, upstream string) string {
	if r.Spec.OfUpstream() {
		return upstream
	}
	return server
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

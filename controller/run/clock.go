package run

import "time"

// clockStep is more than a measured offset ever moves by itself: beyond it, one
// of the two clocks was set.
const clockStep = 2 * time.Second

// shift moves all of the run's times: our clock is another one since they were
// noted (it was set, and the controller restarted). How much by is known from
// the order's start, which its server has on a clock that did not change.
func (r *Run) shift(by time.Duration) {
	for _, t := range []*time.Time{
		&r.Since, &r.OrderSent, &r.MustEndBy, &r.Started, &r.EndsAt, &r.Ended, &r.Returned,
		&r.NoticedAt, &r.MovedAt, &r.SwitchAt, &r.NextTry,
	} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	for _, p := range r.Peers {
		if !p.NextTry.IsZero() {
			p.NextTry = p.NextTry.Add(by)
		}
	}
	for i := range r.Timeline {
		r.Timeline[i].At = r.Timeline[i].At.Add(by)
	}
	for c, at := range r.Drilled {
		r.Drilled[c] = at + by.Milliseconds()
	}
	for c, a := range r.Answered {
		a.AtMs += by.Milliseconds()
		r.Answered[c] = a
	}
}

// notInFuture: the clock was set while no controller ran, and a phase that began in
// the future would last until then, as a call would wait. Also after a shift: it
// moves what was noted since the restart too.
func (r *Run) notInFuture(now time.Time) {
	if r.Since.After(now) {
		r.Since = now
	}
	if r.NextTry.Sub(now) > renewEvery {
		r.NextTry = now
	}
	for _, p := range r.Peers {
		if p.NextTry.Sub(now) > renewEvery {
			p.NextTry = now
		}
	}
}

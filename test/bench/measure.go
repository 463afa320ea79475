package main

import (
	"errors"
	"fmt"
	"time"

	"firebreakdns.io/firebreak/test/bench/machine"
	"firebreakdns.io/firebreak/test/bench/program"
)

// maxRuns of a measurement: each has names of its own for misses, of which eight
// hexadecimal digits hold twice as many.
const maxRuns = 1 << 9

// settle is a load before the measured one: it fills the cache of every worker
// and lets the program reach its usual state.
func settle(r *running, w *work, length time.Duration, run int) error {
	before := *w
	if before.client == dnsperfClient {
		before = *workNamed("peak")
	}
	before.rate = 0
	if before.window == 0 {
		before.window = 64
	}
	if before.fresh {
		run += maxRuns // names that the measured load does not ask
	}
	_, err := apply(&before, r, max(300*time.Millisecond, length/4), run)
	return err
}

// measure puts one load on a running server.
func measure(w *work, r *running, upstream string, length time.Duration, round, run int) (m measured, err error) {
	m = measured{Round: round, Server: r.name, Work: w.name, Load: machine.Load()}
	if err := settle(r, w, length, run); err != nil {
		return m, err
	}
	askedBefore, err := questionsAsked(upstream)
	if err != nil {
		return m, err
	}
	before, err := r.usage()
	if err != nil {
		return m, err
	}
	if m.load, err = apply(w, r, length, run); err != nil {
		return m, err
	}
	after, err := r.usage()
	if err != nil {
		return m, err
	}
	askedAfter, err := questionsAsked(upstream)
	if err != nil {
		return m, err
	}
	if err := r.err(); err != nil {
		return m, err
	}
	if m.RSS, err = r.rss(); err != nil {
		return m, err
	}
	return m, m.judge(w, after.Sub(before), askedAfter-askedBefore)
}

// judge turns CPU time into a figure, or says why it is none.
func (m *measured) judge(w *work, used program.Usage, asked uint64) error {
	worked := float64(m.Answered + m.Late)
	if worked == 0 {
		return errors.New("no answer")
	}
	total := micros(used.Total)
	m.CPU = total / worked
	if ticks := micros(used.User + used.System); ticks > 0 {
		m.User, m.System = m.CPU*micros(used.User)/ticks, m.CPU*micros(used.System)/ticks
	}
	m.Rate = float64(m.Answered) / m.Seconds
	m.Busy = total / 1e6 / m.Seconds / float64(w.workers)
	m.Upstream = float64(asked) / worked
	if share := float64(m.Bad) / worked; share > 0.001 {
		return fmt.Errorf("%.1f %% of the answers were wrong", 100*share)
	}
	// An answer that was fetched is no cached one. Each name may expire, or be
	// fetched ahead of that, during the run.
	if !w.fresh && float64(asked) > 2*nameCount+0.01*worked {
		return fmt.Errorf("%.1f %% of the answers came from the upstream and not from the cache", 100*m.Upstream)
	}
	if w.fresh && m.Upstream < 0.9 {
		return fmt.Errorf("only %.1f %% of the answers came from the upstream: that were no misses", 100*m.Upstream)
	}
	return nil
}

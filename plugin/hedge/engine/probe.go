package engine

import "time"

const (
	// A probe of an ejected upstream may take a second: nobody waits for it. One
	// that decides whether to eject is to be quick: twice what an answer takes,
	// within bounds.
	probeWithin  = time.Second
	suspectLeast = 100 * time.Millisecond
	suspectMost  = 400 * time.Millisecond
	// probeAgain is when there may be a token for a probe again.
	probeAgain = 500 * time.Millisecond
)

// Probe is a question of our own that finds out whether an upstream is well. At
// most one is under way for each upstream and transport.
type Probe struct {
	Key       string
	Transport Transport
	Within    time.Duration // after that it has failed

	link *link
}

// Probes are those that are due, and when to ask for them again if no Event and
// no suspicion comes before; 0 means that nothing is waited for. Each is to be
// reported with Probed.
func (v *View) Probes(now Time) (due []*Probe, next Time) {
	c := v.core
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range v.members {
		if m.loops {
			continue
		}
		for _, l := range m.links {
			if l == nil || l.probing || (!l.ejected && !l.suspect) {
				continue
			}
			at, within := l.until, probeWithin
			if !l.ejected {
				at, within = now, min(max(2*l.latency.percentile(l.transport), suspectLeast), suspectMost)
			}
			if at <= now {
				if c.budget.spend(0, now) {
					l.probing = true
					due = append(due, &Probe{Key: m.key, Transport: l.transport, Within: within, link: l})
					continue
				}
				at = now + probeAgain
			}
			if next == 0 || at < next {
				next = at
			}
		}
	}
	return due, next
}

// Probed tells what came of a probe: Failed where nothing did.
func (v *View) Probed(p *Probe, o Outcome, now Time) {
	c := v.core
	c.mu.Lock()
	defer c.mu.Unlock()
	l := p.link
	l.probing = false
	if o == Unsent {
		// Nothing is known; the next one is not sent at once.
		l.until = max(l.until, now+probeAgain)
		l.suspect = false
		return
	}
	if o != Failed {
		l.heard = now
	}
	well := o == Good || o == Cut
	switch {
	case !l.ejected && l.suspect:
		// Whatever it says, it is not silent.
		l.suspect = false
		if o == Failed {
			l.cause = Silent
			l.failed++
			c.eject(l, now)
		}
	case !l.ejected: // a question brought it back meanwhile
	case well, o != Failed && l.cause != BadAnswers:
		c.back(l, now)
	case o != Failed && l.span == ejectMost:
		// The zone's own name may be what it cannot answer. It has one question to
		// show; failing that one is enough.
		c.back(l, now)
		l.row = inARow - 1
	default:
		l.span = min(2*l.span, ejectMost)
		l.until = now + l.span
	}
}

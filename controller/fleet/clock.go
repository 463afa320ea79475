package fleet

import (
	"time"
)

// What the offset of a clock is measured by.
const (
	// clockWindow is how long a measurement counts: long enough to have met a
	// quiet moment of the network, short enough to follow a clock that drifts.
	clockWindow = time.Minute
	// clockDrift is how fast two clocks may move apart: ntpd slews by 500 in a
	// million, and quartz alone does not come near that.
	clockDrift = 500e-6
	clockKeep  = 64 // measurements, at about one a second
)

// Clock measures how far a server's clock is from ours, by round trips: its
// answer was made at some moment between asking and hearing, so the middle is
// off by half the round trip at most. The best of the last minute counts, which
// is the one with the least to doubt now. A measurement that cannot be true
// together with the best means that one of the clocks was set: it begins anew.
//
// It is not safe for concurrent use.
type Clock struct {
	samples []clockSample
}

type clockSample struct {
	at     time.Time     // when it was asked for: it drifts since then at most
	offset time.Duration // the server's clock minus ours
	half   time.Duration // of the round trip: how far that can be off
}

// doubt is how far the sample can be off at a later time.
func (s clockSample) doubt(now time.Time) time.Duration {
	return s.half + time.Duration(clockDrift*float64(now.Sub(s.at)))
}

// Add takes in a round trip: when we asked and heard, and what the server's
// clock showed in between.
func (c *Clock) Add(asked, heard, server time.Time) {
	trip := heard.Sub(asked) // monotonic, where both have it
	if trip < 0 {
		return // our clock was set back in between: it says nothing
	}
	// Wall time from here on: it is wall clocks that are compared.
	s := clockSample{at: asked, half: trip / 2, offset: server.Round(0).Sub(asked.Add(trip / 2).Round(0))}
	if best, ok := c.best(heard); ok {
		apart := (s.offset - best.offset).Abs()
		if apart > s.half+best.doubt(heard) {
			c.samples = c.samples[:0]
		}
	}
	if len(c.samples) == clockKeep {
		c.samples = append(c.samples[:0], c.samples[1:]...)
	}
	c.samples = append(c.samples, s)
}

// Offset is the server's clock minus ours, and how far that can be off. False
// while nothing was measured.
func (c *Clock) Offset(now time.Time) (offset, doubt time.Duration, ok bool) {
	best, ok := c.best(now)
	if !ok {
		return 0, 0, false
	}
	return best.offset, best.doubt(now), true
}

// best is the sample with the least doubt now; of those that are too old only
// where there is no other, with all the doubt of its age.
func (c *Clock) best(now time.Time) (best clockSample, found bool) {
	for _, s := range c.samples {
		if found && now.Sub(s.at) > clockWindow && now.Sub(best.at) <= clockWindow {
			continue
		}
		fresher := found && now.Sub(best.at) > clockWindow && now.Sub(s.at) <= clockWindow
		if !found || fresher || s.doubt(now) <= best.doubt(now) {
			best, found = s, true
		}
	}
	return best, found
}

package engine

import "time"

// Health is what is known of an upstream.
type Health struct {
	Key   string
	Asked uint64 // questions sent to it, probes aside
	Last  Time   // when the last of them was
	Loops bool   // what is sent to it comes back to us: it is not asked
	Links []LinkHealth
}

// LinkHealth is what is known of an upstream over one transport.
type LinkHealth struct {
	Transport Transport
	Ejected   bool
	Cause     Cause // of the last failure
	Since     Time  // of the last change of Ejected
	Until     Time  // when it is probed, while it is ejected
	InFlight  int
	Failed    uint64
	P95       time.Duration
	Heard     Time // when it last answered; -1: never
}

// Well says whether the upstream is asked like any other: over the transport
// that it is asked first.
func (h Health) Well() bool { return !h.Loops && len(h.Links) > 0 && !h.Links[0].Ejected }

// Health is that of the view's upstreams, in order. The first of an upstream's
// links is the one that is asked first.
func (v *View) Health() []Health {
	c := v.core
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Health, 0, len(v.members))
	for _, m := range v.members {
		h := Health{Key: m.key, Asked: m.asked, Last: m.last, Loops: m.loops}
		for _, l := range []*link{m.prefer(v.options.Prefer), m.other(v.options.Prefer)} {
			if l == nil {
				continue
			}
			h.Links = append(h.Links, LinkHealth{
				Transport: l.transport, Ejected: l.ejected, Cause: l.cause, Since: l.since, Until: l.until,
				InFlight: l.inFlight, Failed: l.failed, P95: l.latency.percentile(l.transport), Heard: l.heard,
			})
		}
		out = append(out, h)
	}
	return out
}

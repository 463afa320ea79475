package clients

import (
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol/steady"
)

// Moment is a point in time on both clocks. Whoever calls the table passes it
// in, so that a caller who handles a batch reads the clock once, and tests hold
// the clock.
type Moment struct {
	Mono int64 // nanoseconds on the monotonic clock since the process began: what spans are measured with
	Ms   int64 // Unix milliseconds on the steady wall clock: what people and controllers read
}

var processStart = time.Now()

// Now is the present moment.
func Now() Moment {
	t := time.Now()
	return Moment{Mono: int64(t.Sub(processStart)), Ms: steady.At(t).UnixMilli()}
}

// Add is the moment d later.
func (m Moment) Add(d time.Duration) Moment {
	return Moment{Mono: m.Mono + int64(d), Ms: m.Ms + d.Milliseconds()}
}

// Time is the moment on the wall clock, in UTC.
func (m Moment) Time() time.Time { return time.UnixMilli(m.Ms).UTC() }

// Package steady is a wall clock that nobody can set: it shows the wall time at
// which it was anchored and moves on with the monotonic clock.
//
// What a drill measures, on servers and on the controller, are spans between
// moments that are told as wall time. A wall clock that is set in between (a
// first NTP sync, a resumed machine, a hand) would make nonsense of them, and of
// the offsets between clocks. So both sides read this one, and let it follow the
// system's clock (Follow) only while nothing is being measured. The monotonic
// clock is slewed by NTP as the wall clock is, so the two drift apart by steps
// alone.
//
// A process has one such clock, as it has one of the system's.
package steady

import (
	"sync/atomic"
	"time"
)

// followAt is how far apart the clocks must be to be a step: less is the time
// that it takes to read both.
const followAt = 5 * time.Millisecond

// anchored is a moment on both clocks.
type anchored struct {
	wall   time.Time // without a monotonic reading
	system time.Time // with one
}

var anchor = func() *atomic.Pointer[anchored] {
	var p atomic.Pointer[anchored]
	t := time.Now()
	p.Store(&anchored{wall: wall(t), system: t})
	return &p
}()

// Now is the present moment. It has no monotonic reading and needs none.
func Now() time.Time { return At(time.Now()) }

// At is the moment of a reading of the system's clock (time.Now).
func At(system time.Time) time.Time {
	a := anchor.Load()
	return a.wall.Add(system.Sub(a.system))
}

// Follow takes the system's wall clock over. It reports by how much that moved
// this one; 0 where it had not been set.
func Follow() time.Duration {
	t := time.Now()
	by := wall(t).Sub(At(t))
	if by.Abs() < followAt {
		return 0
	}
	anchor.Store(&anchored{wall: wall(t), system: t})
	return by
}

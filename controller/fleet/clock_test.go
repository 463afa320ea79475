package fleet

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever the network does, the true offset is within the doubt.
func TestClockIsHonest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var c Clock
		start := time.Unix(1_800_000_000, 0)
		now := start
		offset := time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(rt, "offset"))
		drift := rapid.Float64Range(-clockDrift, clockDrift).Draw(rt, "drift")
		truth := func(at time.Time) time.Duration { return offset + time.Duration(drift*float64(at.Sub(start))) }
		for range rapid.IntRange(1, 200).Draw(rt, "trips") {
			there := time.Duration(rapid.Int64Range(0, 2e9).Draw(rt, "there"))
			back := time.Duration(rapid.Int64Range(0, 2e9).Draw(rt, "back"))
			asked, at, heard := now, now.Add(there), now.Add(there+back)
			c.Add(asked, heard, at.Add(truth(at)))
			now = heard.Add(time.Duration(rapid.Int64Range(0, 30e9).Draw(rt, "pause")))
			got, doubt, ok := c.Offset(now)
			if !ok {
				rt.Fatal("nothing measured")
			}
			// Rounding of the drift is a nanosecond a sample.
			if off := (got - truth(now)).Abs(); off > doubt+time.Microsecond {
				rt.Fatalf("off by %s, and says at most %s", off, doubt)
			}
		}
	})
}

// The quickest round trip counts.
func TestClockTakesTheBest(t *testing.T) {
	var c Clock
	now := time.Unix(1_800_000_000, 0)
	for i := range 30 {
		trip := 200 * time.Millisecond
		if i == 7 {
			trip = time.Millisecond
		}
		c.Add(now, now.Add(trip), now.Add(trip).Add(5*time.Second)) // the way there takes all of it
		now = now.Add(time.Second)
	}
	got, doubt, _ := c.Offset(now)
	if (got-5*time.Second).Abs() > doubt || doubt > 15*time.Millisecond {
		t.Errorf("%s ± %s", got, doubt)
	}
}

// A clock that is set is followed at the next round trip.
func TestClockFollowsSteps(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour, 300 * time.Millisecond} {
		var c Clock
		now := time.Unix(1_800_000_000, 0)
		offset := 3 * time.Second
		for range 20 {
			c.Add(now, now.Add(10*time.Millisecond), now.Add(5*time.Millisecond).Add(offset))
			now = now.Add(time.Second)
		}
		offset += step
		c.Add(now, now.Add(20*time.Millisecond), now.Add(10*time.Millisecond).Add(offset))
		got, doubt, _ := c.Offset(now.Add(20 * time.Millisecond))
		if (got - offset).Abs() > doubt {
			t.Errorf("a step of %s: %s ± %s", step, got, doubt)
		}
	}
}

func TestClockOldIsDoubtful(t *testing.T) {
	var c Clock
	if _, _, ok := c.Offset(time.Now()); ok {
		t.Error("an offset of nothing")
	}
	now := time.Unix(1_800_000_000, 0)
	c.Add(now, now, now)
	if _, doubt, _ := c.Offset(now.Add(time.Hour)); doubt < time.Second {
		t.Errorf("after an hour, only %s of doubt", doubt)
	}
	// A worse one of now is better than a good one of an hour ago.
	now = now.Add(time.Hour)
	c.Add(now, now.Add(200*time.Millisecond), now.Add(100*time.Millisecond))
	if _, doubt, _ := c.Offset(now.Add(200 * time.Millisecond)); doubt > 101*time.Millisecond {
		t.Errorf("%s of doubt", doubt)
	}
}

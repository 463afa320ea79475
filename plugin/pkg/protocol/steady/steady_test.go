package steady

import (
	"testing"
	"time"
)

// set makes this clock one whose system's clock was set by d since it was anchored.
func set(t *testing.T, d time.Duration) {
	t.Helper()
	was := *anchor.Load()
	t.Cleanup(func() { anchor.Store(&was) })
	anchor.Store(&anchored{wall: was.wall.Add(-d), system: was.system})
}

func TestNowMovesOn(t *testing.T) {
	a := Now()
	time.Sleep(20 * time.Millisecond)
	b := Now()
	if d := b.Sub(a); d < 20*time.Millisecond || d > 5*time.Second {
		t.Errorf("moved by %s in 20 ms", d)
	}
	if d := time.Until(Now()).Abs(); d > time.Second {
		t.Errorf("%s off from the system's clock, which nobody set", d)
	}
}

func TestFollowIsQuietWhereNobodySetTheClock(t *testing.T) {
	for range 100 {
		if by := Follow(); by != 0 {
			// Somebody may really have set it, once.
			if again := Follow(); again != 0 {
				t.Fatalf("moved by %s and %s", by, again)
			}
		}
	}
}

func TestAStepShowsOnlyAfterFollow(t *testing.T) {
	const step = time.Hour
	before := Now()
	set(t, step) // the system's clock is an hour ahead of this one now
	if d := Now().Sub(before); d > -step+time.Minute {
		t.Fatalf("the helper did not set the clock: %s", d)
	}
	a := Now()
	time.Sleep(time.Millisecond)
	if d := Now().Sub(a); d < 0 || d > time.Minute {
		t.Errorf("a span over the step is %s", d)
	}
	if by := Follow(); (by - step).Abs() > time.Minute {
		t.Errorf("followed by %s, want %s", by, step)
	}
	if d := time.Since(Now()).Abs(); d > time.Second {
		t.Errorf("after Follow it is %s off", d)
	}
}

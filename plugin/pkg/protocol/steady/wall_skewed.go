//go:build clockskew

package steady

import (
	"os"
	"sync"
	"time"
)

// skew is how far this process is to be off from the system's clock:
// FIREBREAK_TEST_CLOCK_OFFSET, a duration as Go writes it. Only binaries of
// tests are built with this: nobody's environment is to move a clock by which
// drills are told.
var skew = sync.OnceValue(func() time.Duration {
	s := os.Getenv("FIREBREAK_TEST_CLOCK_OFFSET")
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		panic("FIREBREAK_TEST_CLOCK_OFFSET: " + err.Error())
	}
	return d
})

// wall is the wall time of a reading of the system's clock, on a clock that is off.
func wall(system time.Time) time.Time { return system.Round(0).Add(skew()) }

package standalone

import (
	"fmt"
	"strconv"

	"firebreakdns.io/firebreak/controller/run"
)

// Environment variables that shorten a run's waits, for tests and the demo.
const (
	EnvReading      = "FIREBREAK_DRILL_READING_SECONDS"
	EnvGap          = "FIREBREAK_DRILL_GAP_SECONDS"
	EnvTail         = "FIREBREAK_DRILL_TAIL_SECONDS"
	EnvRetry        = "FIREBREAK_DRILL_RETRY_SECONDS"
	EnvReturn       = "FIREBREAK_DRILL_RETURN_SECONDS"
	EnvIgnoreHealth = "FIREBREAK_DRILL_IGNORE_HEALTH"
)

// TimingsFrom are the waits as the environment has them. They can be shortened,
// not lengthened; loopback says that every server of the fleet is on loopback,
// without which no check may be ignored.
func TimingsFrom(env func(string) string, loopback bool) (run.Timings, error) {
	t := run.DefaultTimings
	for _, x := range []struct {
		name string
		into *int
	}{
		{EnvReading, &t.ReadingSeconds}, {EnvGap, &t.GapSeconds}, {EnvTail, &t.TailSeconds}, {EnvRetry, &t.RetrySeconds}, {EnvReturn, &t.ReturnSeconds},
	} {
		s := env(x.name)
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > *x.into {
			return t, fmt.Errorf("%s=%q: write seconds from 0 to %d, or leave it out", x.name, s, *x.into)
		}
		*x.into = n
	}
	switch s := env(EnvIgnoreHealth); s {
	case "", "0", "false":
	case "1", "true":
		if !loopback {
			return t, fmt.Errorf("%s is set, and not every server of the fleet is on loopback: it is for tests on one machine; unset it", EnvIgnoreHealth)
		}
		t.IgnoreHealth = true
	default:
		return t, fmt.Errorf("%s=%q: write 1, or leave it out", EnvIgnoreHealth, s)
	}
	return t, nil
}

//go:build !clockskew

package steady

import "time"

// wall is the wall time of a reading of the system's clock.
func wall(system time.Time) time.Time { return system.Round(0) }

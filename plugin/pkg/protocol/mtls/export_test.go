package mtls

import "time"

// SetClock gives the source another clock.
func (s *Source) SetClock(now func() time.Time) { s.now = now }

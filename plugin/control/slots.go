package control

import "sync"

// slots bounds how many of something may be on at once, in all and per caller,
// so that one caller cannot take all of them.
type slots struct {
	mu        sync.Mutex
	free      int
	perCaller int
	taken     map[string]int
}

func newSlots(total, perCaller int) *slots {
	return &slots{free: total, perCaller: perCaller, taken: make(map[string]int)}
}

// take takes one for the caller, or returns false.
func (s *slots) take(caller string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 || s.taken[caller] >= s.perCaller {
		return false
	}
	s.free--
	s.taken[caller]++
	return true
}

// give gives one back.
func (s *slots) give(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.taken[caller]--; s.taken[caller] == 0 {
		delete(s.taken, caller)
	}
}

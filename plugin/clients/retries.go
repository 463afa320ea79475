package clients

import "time"

// retryWindow is how long after a query the same one is a retry of it: longer
// than the 5 s after which glibc, musl and Go ask again.
const retryWindow = 6 * time.Second

// retrySlots is the size of the one table of questions for all clients: 2 MiB.
// A query takes up to two slots for 6 s, so it remembers some 10,000 queries a
// second; beyond that the oldest are forgotten and counted.
const (
	retrySlots = 1 << 17
	retryWays  = 4 // a bucket is one cache line
)

// retrySlot remembers one question of one client, or one exact packet of it.
type retrySlot struct {
	tag  uint64 // 0: free
	atMs uint32 // when it was last asked: Moment.Mono in ms, which wraps after 49 days
	held retryState
	_    [3]byte
}

// retryState says what became of a question since it was last answered.
type retryState uint8

const (
	retryPending   retryState = 1 << iota // no answer was sent
	retryDrilled                          // a drill took it
	retryTruncated                        // the answer was cut: the TCP attempt is to come
)

// retryTable is a shard's part of the table.
type retryTable struct{ slots []retrySlot }

func newRetryTable(slots int) retryTable { return retryTable{make([]retrySlot, slots)} }

func monoMs(mono int64) uint32 { return uint32(mono / int64(time.Millisecond)) } // #nosec G115 -- meant to wrap

// touch finds the slot of tag, or takes one for it. fresh says that the question
// was asked within the window; lost that another, still fresh, had to go.
func (r *retryTable) touch(tag uint64, nowMs uint32) (i uint32, fresh, lost bool) {
	const window = uint32(retryWindow / time.Millisecond)
	base := uint32(tag>>17) % uint32(len(r.slots)/retryWays) * retryWays // #nosec G115 -- both bounded
	bucket := r.slots[base : base+retryWays]
	oldest, age := 0, uint32(0)
	for w := range bucket {
		s := &bucket[w]
		a := nowMs - s.atMs
		if s.tag == tag {
			// A little before now is another thread's clock reading, not 49 days.
			fresh = a <= window || -a <= 1000
			if !fresh {
				s.held = 0
			}
			s.atMs = nowMs
			return base + uint32(w), fresh, false // #nosec G115
		}
		if s.tag == 0 {
			a = 1<<31 - 1
		}
		if a >= age && a < 1<<31 {
			oldest, age = w, a
		}
	}
	s := &bucket[oldest]
	lost = s.tag != 0 && age <= window
	*s = retrySlot{tag: tag, atMs: nowMs}
	return base + uint32(oldest), false, lost // #nosec G115
}

// at is the slot if it still is tag's, else nil.
func (r *retryTable) at(i uint32, tag uint64) *retrySlot {
	if tag == 0 || int(i) >= len(r.slots) || r.slots[i].tag != tag {
		return nil
	}
	return &r.slots[i]
}

// asked notes a query and says whether it is a retry.
//
// An exact packet is only looked for on UDP: there it is a stub's resend. Over a
// connection the port stays and DoH and DoQ always use ID 0, so the second of
// two honest questions would look like one.
func (r *retryTable) asked(pair, exact uint64, stream bool, nowMs uint32) (slot uint32, retry bool, lost int) {
	slot, fresh, gone := r.touch(pair, nowMs)
	if gone {
		lost++
	}
	s := &r.slots[slot]
	if fresh {
		switch {
		case stream && s.held&retryTruncated != 0:
			s.held &^= retryTruncated
		case s.held&(retryPending|retryDrilled) != 0:
			retry = true
		}
	}
	s.held |= retryPending
	if !stream {
		_, again, gone := r.touch(exact, nowMs)
		if gone {
			lost++
		}
		retry = retry || again
		if r.slots[slot].tag != pair { // the packet pushed its question out of a shared bucket
			slot, _, _ = r.touch(pair, nowMs)
			r.slots[slot].held |= retryPending
		}
	}
	return slot, retry, lost
}

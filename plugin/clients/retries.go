package clients

import "time"

// retryWindow is how long after a query the same one is a retry of it: longer
// than the 5 s after which glibc, musl and Go ask again.
const retryWindow = 6 * time.Second

// retrySlots is the size of the one table of questions for all clients: 2 MiB.
// A question takes two slots for 6 s, so it remembers some 5,000 questions a
// second; beyond that the oldest of a bucket are forgotten, and counted.
const (
	retrySlots = 1 << 17
	retryWays  = 8 // a bucket is two cache lines that are fetched together
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

// touch finds the slot of tag in the bucket at base, or takes one for it. fresh
// says that it was asked within the window; lost that another, still fresh, had
// to go.
func (r *retryTable) touch(base uint32, tag uint64, nowMs uint32) (i uint32, fresh, lost bool) {
	const window = uint32(retryWindow / time.Millisecond)
	bucket := r.slots[base : base+retryWays : base+retryWays]
	for w := range bucket {
		if s := &bucket[w]; s.tag == tag {
			a := nowMs - s.atMs
			// A little before now is another thread's clock reading, not 49 days.
			if fresh = a <= window || -a <= 1000; !fresh {
				s.held = 0
			}
			s.atMs = nowMs
			return base + uint32(w), fresh, false // #nosec G115
		}
	}
	oldest, age := 0, uint32(0)
	for w := range bucket {
		s := &bucket[w]
		if s.tag == 0 {
			oldest, age = w, window+1
			break
		}
		if a := nowMs - s.atMs; a >= age && a < 1<<31 {
			oldest, age = w, a
		}
	}
	s := &bucket[oldest]
	lost = age <= window
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

// asked notes a query and says whether it is a retry. A question and its packets
// stand in one bucket.
//
// An exact packet is only looked for on UDP: there it is a stub's resend. Over a
// connection the port stays and DoH and DoQ always use ID 0, so the second of
// two honest questions would look like one.
func (r *retryTable) asked(pair, exact uint64, stream bool, nowMs uint32) (slot uint32, retry bool, lost int) {
	base := uint32(pair>>20) & uint32(len(r.slots)-1) &^ (retryWays - 1) // #nosec G115 -- both bounded
	slot, fresh, gone := r.touch(base, pair, nowMs)
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
	if stream {
		return slot, retry, lost
	}
	_, again, gone := r.touch(base, exact, nowMs)
	if gone {
		lost++
	}
	if r.slots[slot].tag != pair { // the packet pushed its own question out
		held := retryPending
		slot, _, _ = r.touch(base, pair, nowMs)
		r.slots[slot].held = held
	}
	return slot, retry || again, lost
}

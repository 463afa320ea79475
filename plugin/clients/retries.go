package clients

import "time"

// retryWindow is how long after a query the same one is a retry of it: longer
// than the 5 s after which glibc, musl and Go ask again.
const retryWindow = 6 * time.Second

// retrySlots is the size of the one table of questions for all clients: 2 MiB.
// A question takes one slot for 6 s, so it remembers some 20,000 a second; beyond
// that the oldest are forgotten and counted.
const (
	retrySlots = 1 << 17
	retryWays  = 4 // a bucket is one cache line
)

// retryPackets is how many packets of a question are remembered: the same one is
// resent beside those of others behind the client's address who ask the same.
const retryPackets = 3

// retrySlot remembers one question of one client, and its last packets: all that
// a query looks at stands in one cache line.
type retrySlot struct {
	tag     uint32 // 0: free
	atMs    uint32 // when it was last asked: Moment.Mono in ms, which wraps after 49 days
	packets [retryPackets]uint16
	held    retryState
	next    uint8 // of packets, to be overwritten
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
func (r *retryTable) touch(hash uint64, nowMs uint32) (i uint32, fresh, lost bool) {
	const window = uint32(retryWindow / time.Millisecond)
	tag := retryTag(hash)
	base := uint32(hash>>32) % uint32(len(r.slots)/retryWays) * retryWays // #nosec G115 -- both bounded
	bucket := r.slots[base : base+retryWays]
	oldest, age := 0, uint32(0)
	for w := range bucket {
		s := &bucket[w]
		a := nowMs - s.atMs
		if s.tag == tag {
			// A little before now is another thread's clock reading, not 49 days.
			fresh = a <= window || -a <= 1000
			if !fresh {
				*s = retrySlot{tag: tag}
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

// retryTag tells the questions of a bucket apart. Two of them are taken for one
// once in a thousand million times.
func retryTag(hash uint64) uint32 { return uint32(hash) | 1 } // #nosec G115 -- meant to be cut

// at is the slot if it still is the question's, else nil.
func (r *retryTable) at(i uint32, hash uint64) *retrySlot {
	if hash == 0 || int(i) >= len(r.slots) || r.slots[i].tag != retryTag(hash) {
		return nil
	}
	return &r.slots[i]
}

// asked notes a query and says whether it is a retry, and whether it is the very
// packet again.
//
// An exact packet is only looked for on UDP: there it is a stub's resend. Over a
// connection the port stays and DoH and DoQ always use ID 0, so the second of
// two honest questions would look like one.
func (r *retryTable) asked(question uint64, packet uint16, stream bool, nowMs uint32) (slot uint32, retry, resent, lost bool) {
	slot, fresh, lost := r.touch(question, nowMs)
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
		resent = s.packet(packet)
	}
	return slot, retry || resent, resent, lost
}

// packet notes a packet of the question, and says whether it was there already.
// Packets are told apart by 16 bits, of which 0 is none: of honest ones, one in
// 20,000 counts as a repeat.
func (s *retrySlot) packet(p uint16) (again bool) {
	p = max(p, 1)
	for _, have := range s.packets {
		if have == p {
			return true
		}
	}
	s.packets[s.next%retryPackets] = p
	s.next = (s.next + 1) % retryPackets
	return false
}

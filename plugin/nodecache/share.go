package nodecache

// queueID is the queue that an entry is in.
type queueID uint8

const (
	queueNone queueID = iota
	queueSmallAnswers
	queueMainAnswers
	queueSmallDenials
	queueMainDenials
)

// queue is a list of entries, the latest first.
type queue struct {
	id         queueID
	head, tail *entry
	bytes      int64
	entries    int
}

func (q *queue) push(e *entry) {
	e.queue = q.id
	e.prev, e.next = nil, q.head
	if q.head != nil {
		q.head.prev = e
	} else {
		q.tail = e
	}
	q.head = e
	q.bytes += e.cost()
	q.entries++
}

func (q *queue) remove(e *entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		q.head = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		q.tail = e.prev
	}
	e.prev, e.next, e.queue = nil, nil, queueNone
	q.bytes -= e.cost()
	q.entries--
}

// share is a part of the store with an eviction of its own (S3-FIFO): what is new
// goes through a small queue, and only what was asked for again there gets into
// the main one. A scan of names that nobody else asks for passes through the small
// one. What left it is remembered for a while by its hash, so that what comes back
// is let in.
type share struct {
	small, main queue
	limit       int64
	bytes       int64
	evicted     uint64
	left        []uint32 // marks of hashes
}

func (s *share) init(small queueID) { s.small.id, s.main.id = small, small+1 }

// bound sets the share's limit.
func (s *share) bound(limit int64) {
	s.limit = limit
	n := 256
	for int64(n)*1024 < limit {
		n *= 2
	}
	if n != len(s.left) {
		s.left = make([]uint32, n)
	}
}

func (s *share) slot(h uint64) *uint32 { return &s.left[h&uint64(len(s.left)-1)] }

func (s *share) add(e *entry, h uint64) {
	s.bytes += e.cost()
	if at := s.slot(h); *at == mark(h) {
		*at = 0
		s.main.push(e)
		return
	}
	s.small.push(e)
}

func (s *share) queueOf(e *entry) *queue {
	if e.queue == s.main.id {
		return &s.main
	}
	return &s.small
}

func (s *share) remove(e *entry) {
	s.queueOf(e).remove(e)
	s.bytes -= e.cost()
}

// swap puts e where old was: an answer that is fetched again is no new one.
func (s *share) swap(old, e *entry) {
	q := s.queueOf(old)
	e.queue, e.prev, e.next = q.id, old.prev, old.next
	if e.prev != nil {
		e.prev.next = e
	} else {
		q.head = e
	}
	if e.next != nil {
		e.next.prev = e
	} else {
		q.tail = e
	}
	old.queue, old.prev, old.next = queueNone, nil, nil
	by := e.cost() - old.cost()
	q.bytes += by
	s.bytes += by
}

// victim takes an entry out of the share, which is not empty.
func (s *share) victim(hash func(*entry) uint64) *entry {
	for {
		if e := s.small.tail; e != nil && (s.small.bytes > s.limit*smallShare/100 || s.main.tail == nil) {
			s.small.remove(e)
			if e.used.Load()&0xff > 1 {
				e.used.Store(e.used.Load() &^ 0xff)
				s.main.push(e)
				continue
			}
			h := hash(e)
			*s.slot(h) = mark(h)
			s.bytes -= e.cost()
			return e
		}
		e := s.main.tail
		s.main.remove(e)
		if u := e.used.Load(); u&0xff > 0 {
			e.used.Store(u - 1)
			s.main.push(e)
			continue
		}
		s.bytes -= e.cost()
		return e
	}
}

func (s *share) usage() usage {
	return usage{entries: s.small.entries + s.main.entries, bytes: s.bytes, evicted: s.evicted}
}

package nodecache

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

const (
	// entryCost is what an entry takes besides its data: itself, and its part of
	// the table at the least filled.
	entryCost = int64(unsafe.Sizeof(entry{})) + 48
	// denialShare is the part of the store that denials may take, in percent. The
	// search path of a pod's resolv.conf makes four of them for each name in the
	// world, so they are worth keeping; a flood of them costs nobody else anything.
	denialShare = 25
	// smallShare is the part of a share for entries that were asked only once yet,
	// in percent.
	smallShare = 10
	minBuckets = 64
)

// store holds the entries of a process within a number of bytes.
//
// Reading takes no lock. Writing takes one: it comes with an upstream question,
// which costs a hundred times more.
type store struct {
	table  atomic.Pointer[table]
	purges atomic.Uint64 // how often entries were purged

	mu      sync.Mutex
	limit   int64
	count   int
	answers share
	denials share
	swept   int // bucket
}

func newStore(limit int64) *store {
	s := &store{}
	s.table.Store(newTable(maphash.MakeSeed(), minBuckets))
	s.answers.init(queueSmallAnswers)
	s.denials.init(queueSmallDenials)
	s.setLimit(limit)
	return s
}

func (s *store) get(k *key) *entry {
	t := s.table.Load()
	return t.find(k, t.hash(k))
}

// setLimit changes the bound, in bytes.
func (s *store) setLimit(limit int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit == s.limit {
		return
	}
	s.limit = limit
	s.answers.bound(limit)
	s.denials.bound(limit * denialShare / 100)
	s.shrink()
}

// put stores e, which replaces what has the same key, and takes over how often
// that was asked for. purges is what the store's counter was when e was asked for:
// what was purged since must not come back.
func (s *store) put(e *entry, purges uint64) {
	k := e.key()
	s.mu.Lock()
	defer s.mu.Unlock()
	if purges != s.purges.Load() {
		return
	}
	t := s.table.Load()
	h := t.hash(k)
	if old := t.find(k, h); old != nil {
		e.used.Store(old.used.Load())
		e.last.Store(old.last.Load())
		same := old.kind.denial() == e.kind.denial()
		if same {
			s.shareOf(e).swap(old, e)
		} else {
			s.shareOf(old).remove(old)
			s.shareOf(e).add(e, h)
		}
		t.replace(old, e, h)
		s.shrink()
		return
	}
	if s.count >= fill*len(t.buckets) {
		t = s.grow(t)
	}
	t.insert(e, h)
	s.count++
	s.shareOf(e).add(e, h)
	s.shrink()
}

func (s *store) shareOf(e *entry) *share {
	if e.kind.denial() {
		return &s.denials
	}
	return &s.answers
}

// grow doubles the table. Who looks meanwhile uses the old one.
func (s *store) grow(t *table) *table {
	g := newTable(t.seed, 2*len(t.buckets))
	for i := range t.buckets {
		t.each(i, func(e *entry) { g.insert(e, g.hash(e.key())) })
	}
	s.table.Store(g)
	return g
}

// shrink evicts until the store is within its bounds.
func (s *store) shrink() {
	for s.denials.bytes > s.denials.limit {
		s.evict(&s.denials)
	}
	for s.answers.bytes+s.denials.bytes > s.limit && s.answers.bytes > 0 {
		s.evict(&s.answers)
	}
	for s.denials.bytes > s.limit {
		s.evict(&s.denials)
	}
}

func (s *store) evict(from *share) {
	e := from.victim(func(e *entry) uint64 { return s.hashOf(e) })
	s.forget(e)
	from.evicted++
}

func (s *store) hashOf(e *entry) uint64 {
	k := e.key()
	return s.table.Load().hash(k)
}

// forget takes out of the table what is in no queue any more.
func (s *store) forget(e *entry) {
	s.table.Load().replace(e, nil, s.hashOf(e))
	s.count--
}

// drop removes e, if it is still there.
func (s *store) drop(e *entry) bool {
	if e.queue == queueNone {
		return false
	}
	s.shareOf(e).remove(e)
	s.forget(e)
	return true
}

// purge removes what matches and says how many that were.
func (s *store) purge(matches func(*entry) bool) int {
	s.mu.Lock()
	s.purges.Add(1)
	s.mu.Unlock()
	t := s.table.Load()
	n := 0
	for i := range t.buckets {
		s.mu.Lock()
		now := s.table.Load() // it may have grown: its buckets come after
		if now != t {
			s.mu.Unlock()
			return n + s.purge(matches)
		}
		t.each(i, func(e *entry) {
			if matches(e) && s.drop(e) {
				n++
			}
		})
		s.mu.Unlock()
	}
	return n
}

// sweep removes what is no good any more, from a part of the table at a time: one
// in parts.
func (s *store) sweep(now int64, parts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table.Load()
	for range len(t.buckets)/parts + 1 {
		s.swept = (s.swept + 1) % len(t.buckets)
		t.each(s.swept, func(e *entry) {
			if now-e.stored >= int64(e.ttl+e.hold)*int64(time.Second) {
				s.drop(e)
			}
		})
	}
}

// usage is how full a share is.
type usage struct {
	entries int
	bytes   int64
	evicted uint64
}

func (s *store) usage() (answers, denials usage, limit int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers.usage(), s.denials.usage(), s.limit
}

// hottest calls do with entries until it says false: those asked more than once
// first, and of those the ones that came last.
func (s *store) hottest(do func(*entry) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range []*queue{&s.answers.main, &s.denials.main, &s.answers.small, &s.denials.small} {
		for e := q.head; e != nil; e = e.next {
			if !do(e) {
				return
			}
		}
	}
}

package clients

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/gaissmai/bart"
)

// Bounds of the seen table.
const (
	DefaultMax = 4096
	MinMax     = 64
	MaxMax     = 65536
)

const (
	shardBits  = 5
	shardCount = 1 << shardBits
)

// Table is who asks and how often: the seen table, the retries and the
// recording, for all server blocks of a process. Its methods can be called from
// any goroutine and never block on anything but each other.
//
// A client belongs to one shard, and one lock covers all that is kept of it, so
// that a query takes one lock and its answer another. Entries come from one
// pool, so that the table is full when it holds max clients and not when one
// shard does.
type Table struct {
	seed   seed
	infra  atomic.Pointer[bart.Lite] // who is no client; nil: nobody
	_      [24]byte                  // each shard begins a cache line
	shards [shardCount]shard

	// admission is taken before any shard's lock and guards what follows.
	admission sync.Mutex
	max       int
	entries   []seenClient // written only with the lock of the entry's shard; replaced only with all locks
	free      []uint32
	gen       uint32

	dropped   atomic.Uint64 // clients replaced or not let in
	recording atomic.Pointer[recording]

	recorder   sync.Mutex // orders of recordings, one at a time; taken before admission
	forgotten  []string   // drills whose recording was deleted, the last ones; guarded by recorder
	recordings uint32     // so far
}

// shard is made so that a query and its answer write to one cache line of it: its
// lock and, behind it, the counters of an answer that went well. Every further
// line would travel between the cores with them. Tests hold it there.
type shard struct {
	mu    sync.Mutex
	count counters
	size  int
	live  order // entries that may be replaced
	kept  order // entries of targets

	heads   []uint32 // of the chains of entries, by hash
	door    []doorSlot
	retries retryTable
	rec     *recordingShard // nil: nothing is recorded
	_       [592]byte       // 1 KiB each: what is allocated with more than 32 KiB begins a page
}

// NewTable is an empty table for up to size clients (MinMax to MaxMax). All of
// its memory is allocated here.
func NewTable(size int) *Table {
	t := &Table{}
	var b [8 * len(t.seed)]byte
	_, _ = rand.Read(b[:]) // never fails
	for i := range t.seed {
		t.seed[i] = binary.LittleEndian.Uint64(b[8*i:]) | 1
	}
	for j := range t.shards {
		t.shards[j].retries = newRetryTable(retrySlots / shardCount)
	}
	t.allocate(size)
	return t
}

// allocate gives the table new, empty room for size clients.
func (t *Table) allocate(size int) {
	t.max = size
	t.entries = make([]seenClient, size+1) // entry 0 is none
	t.free = make([]uint32, 0, size)
	for i := size; i > 0; i-- {
		t.free = append(t.free, uint32(i)) // #nosec G115 -- at most MaxMax
	}
	for j := range t.shards {
		s := &t.shards[j]
		s.heads = make([]uint32, pow2(2*size/shardCount))
		s.door = make([]doorSlot, pow2(4*size/shardCount))
		s.live, s.kept, s.size = order{}, order{}, 0
	}
}

func pow2(n int) int {
	p := 8
	for p < n {
		p *= 2
	}
	return p
}

func (t *Table) shardOf(h uint64) *shard { return &t.shards[h>>(64-shardBits)] }

func (t *Table) lockAll() {
	for j := range t.shards {
		t.shards[j].mu.Lock()
	}
}

func (t *Table) unlockAll() {
	for j := range t.shards {
		t.shards[j].mu.Unlock()
	}
}

// SetInfrastructure names who is no client: queries from these prefixes count
// nowhere.
func (t *Table) SetInfrastructure(prefixes []netip.Prefix) {
	if len(prefixes) == 0 {
		t.infra.Store(nil)
		return
	}
	set := new(bart.Lite)
	for _, p := range prefixes {
		set.Insert(p)
	}
	t.infra.Store(set)
}

// Infrastructure says whether a is no client.
func (t *Table) Infrastructure(a netip.Addr) bool {
	set := t.infra.Load()
	return set != nil && set.Contains(a)
}

// InfrastructurePrefixes are those that SetInfrastructure was given.
func (t *Table) InfrastructurePrefixes() []netip.Prefix {
	set := t.infra.Load()
	if set == nil {
		return nil
	}
	return slices.Collect(set.All())
}

// Query counts a query that has arrived. What becomes of it is to be reported
// on the ticket: Answered or Drilled, or nothing if it never gets an answer. It
// does not allocate, but for the growth of a running recording.
func (t *Table) Query(q Query, now Moment) (tk Ticket) {
	if t.Infrastructure(q.Addr) || !q.Addr.IsValid() {
		return tk
	}
	k := keyOf(q.Addr)
	h := t.seed.addr(k)
	pair := t.seed.pair(h, q.Question) | 1
	tk.addr, tk.hash, tk.question, tk.began = k, h, q.Question, now.Mono
	tk.slotTag, tk.state = pair, ticketOpen

	s := t.shardOf(h)
	s.mu.Lock()
	var lost bool
	tk.slot, tk.retry, tk.resent, lost = s.retries.asked(pair, t.seed.packet(q.Port, q.ID), q.Stream, monoMs(now.Mono))
	s.count.queries++
	if lost {
		s.count.retriesLost++
	}
	if tk.retry {
		s.count.retries++
	}
	again := false
	var e *seenClient
	if i := t.find(s, k, h); i != 0 {
		t.see(s, i, tk.retry, now)
		e = &t.entries[i]
		tk.entry, tk.gen = i, e.gen
	} else {
		again = s.doorOf(h).knock(h, tk.retry, now.Ms)
	}
	if r := s.rec.of(k, e, now); r != nil {
		r.asked(tk.retry, now.Ms)
	}
	s.mu.Unlock()

	if again {
		t.admit(&tk, now)
	}
	return tk
}

// Answered counts the answer to a query, with its response code. The second one
// of the same query is not counted. Of a query that a drill had taken none is: if
// the drill has ended and it was answered after all, its question is not lost, and
// that is all (a drill's own refusal is not reported here). Report it before it is
// sent: a client may ask again before a later report gets here, and would seem to
// repeat an unanswered question.
func (t *Table) Answered(tk *Ticket, rcode int, truncated bool, now Moment) {
	if tk.state != ticketOpen && tk.state != ticketDrilled {
		return
	}
	s := t.shardOf(tk.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.retries.at(tk.slot, tk.slotTag); slot != nil {
		slot.held = 0
		if truncated {
			slot.held = retryTruncated
		}
	}
	failed := isError(rcode)
	if tk.state == ticketDrilled {
		if r := s.rec.of(tk.addr, t.entryOf(tk), now); r != nil && !failed {
			r.heldAndAnswered(tk.question, now.Ms)
		}
		return
	}
	tk.state = ticketAnswered
	s.count.answer(rcode, now.Mono-tk.began, now.Ms)
	e := t.entryOf(tk)
	if e != nil {
		e.answers++
		if failed {
			e.errors++
		}
	} else if d := s.doorOf(tk.hash); d.tag == doorTag(tk.hash) && d.answered < d.queries {
		d.answered++
		if failed {
			d.errors++
		}
	}
	if r := s.rec.of(tk.addr, e, now); r != nil {
		r.answered(tk.question, failed, now.Ms)
	}
}

// entryOf is the ticket's entry, or nil: it had none, or that is another's now.
// The caller holds the shard's lock.
func (t *Table) entryOf(tk *Ticket) *seenClient {
	if tk.entry == 0 || int(tk.entry) >= len(t.entries) || t.entries[tk.entry].gen != tk.gen {
		return nil
	}
	return &t.entries[tk.entry]
}

// Truncated says that the answer, reported already, was cut on its way out: the
// same question over TCP is no retry.
func (t *Table) Truncated(tk *Ticket) {
	if tk.state != ticketAnswered {
		return
	}
	s := t.shardOf(tk.hash)
	s.mu.Lock()
	if slot := s.retries.at(tk.slot, tk.slotTag); slot != nil && slot.held&(retryPending|retryDrilled) == 0 {
		slot.held = retryTruncated
	}
	s.mu.Unlock()
}

// Drilled counts a query that a drill has taken: it is no answer, whatever the
// client is sent.
func (t *Table) Drilled(tk *Ticket, now Moment) {
	if tk.state != ticketOpen {
		return
	}
	tk.state = ticketDrilled
	s := t.shardOf(tk.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	again := false // an earlier one of the same question was drilled
	if slot := s.retries.at(tk.slot, tk.slotTag); slot != nil {
		again = slot.held&retryDrilled != 0
		slot.held = slot.held&^retryPending | retryDrilled
	}
	s.count.drilled++
	if r := s.rec.of(tk.addr, t.entryOf(tk), now); r != nil {
		r.drill(tk.question, again, tk.resent, now.Ms)
	}
}

// Len is the number of clients in the table.
func (t *Table) Len() int {
	n := 0
	for j := range t.shards {
		s := &t.shards[j]
		s.mu.Lock()
		n += s.size
		s.mu.Unlock()
	}
	return n
}

// Max is the number of clients that the table has room for.
func (t *Table) Max() int {
	t.admission.Lock()
	defer t.admission.Unlock()
	return t.max
}

// Dropped is the number of clients that were replaced or not let in for lack of
// room.
func (t *Table) Dropped() uint64 { return t.dropped.Load() }

func (t *Table) counters() counters {
	var sum counters
	for j := range t.shards {
		s := &t.shards[j]
		s.mu.Lock()
		sum.add(&s.count)
		s.mu.Unlock()
	}
	return sum
}

// LastAnswerMs is when a client was last answered (Unix ms); 0: never.
func (t *Table) LastAnswerMs() int64 {
	c := t.counters()
	return c.lastAnswer
}

// Stats are the counters since the process began.
func (t *Table) Stats(now Moment) protocol.Stats {
	c := t.counters()
	return protocol.Stats{
		NowMs:     now.Ms,
		Queries:   c.queries,
		Questions: c.queries - c.retries,
		Retries:   c.retries,
		Answers:   c.answers,
		ServFail:  c.servfail,
		Refused:   c.refused,
		Drilled:   c.drilled,
		NXDomain:  &c.nxdomain,
		LatencyMs: c.latency[:],
	}
}

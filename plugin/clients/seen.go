package clients

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// seenClient is an entry of the seen table. Its shard's lock guards it. What
// every query needs stands in its first cache line, which daily[0] ends: a test
// holds it there.
type seenClient struct {
	key     addrKey
	chain   uint32 // next in the bucket
	gen     uint32 // new with every use of the entry, so that old tickets miss
	queries uint64
	answers uint64
	last    int64 // Unix ms
	moved   int64 // Unix ms; when it was last put first
	day     int32 // of daily[0], in days since 1970 UTC
	daily   [7]uint32

	prev, next uint32 // in the order of last use
	rec        uint32 // of recording recOf: the client's index there
	recOf      uint32
	kept       bool // a target of the drill being recorded: not replaced
	errors     uint64
	retries    uint64

	first  int64 // Unix ms
	hash   uint64
	scored uint64  // queries when the busiest were last looked for
	score  float32 // of late, see busiest.go
	_      [36]byte
}

// moveEvery is the precision of the order of last use: an entry that was put
// first less than this ago stays where it is, or every query would write into
// three others.
const moveEvery = 1000 // ms

// order is a doubly linked list of entries, latest first.
type order struct{ head, tail uint32 }

func (o *order) push(e []seenClient, i uint32) {
	e[i].prev, e[i].next = 0, o.head
	if o.head != 0 {
		e[o.head].prev = i
	} else {
		o.tail = i
	}
	o.head = i
}

func (o *order) remove(e []seenClient, i uint32) {
	p, n := e[i].prev, e[i].next
	if p != 0 {
		e[p].next = n
	} else {
		o.head = n
	}
	if n != 0 {
		e[n].prev = p
	} else {
		o.tail = p
	}
	e[i].prev, e[i].next = 0, 0
}

// orderOf is the list that entry c is in.
func (s *shard) orderOf(c *seenClient) *order {
	if c.kept {
		return &s.kept
	}
	return &s.live
}

// find is the entry of k, or 0.
func (t *Table) find(s *shard, k addrKey, h uint64) uint32 {
	for i := s.heads[h&uint64(len(s.heads)-1)]; i != 0; i = t.entries[i].chain {
		if t.entries[i].key == k {
			return i
		}
	}
	return 0
}

// link puts entry i, whose key and hash are set, into its shard.
func (t *Table) link(s *shard, i uint32) {
	e := &t.entries[i]
	b := e.hash & uint64(len(s.heads)-1)
	e.chain = s.heads[b]
	s.heads[b] = i
	s.orderOf(e).push(t.entries, i)
	s.size++
}

// unlink takes entry i out of its shard.
func (t *Table) unlink(s *shard, i uint32) {
	e := &t.entries[i]
	at := &s.heads[e.hash&uint64(len(s.heads)-1)]
	for *at != i {
		at = &t.entries[*at].chain
	}
	*at = e.chain
	s.orderOf(e).remove(t.entries, i)
	s.size--
}

// see counts a query of an entry.
func (t *Table) see(s *shard, i uint32, retry bool, now Moment) {
	e := &t.entries[i]
	e.queries++
	if retry {
		e.retries++
	}
	e.last = max(e.last, now.Ms)
	e.roll(dayOf(now.Ms))
	e.daily[0]++
	if now.Ms-e.moved >= moveEvery {
		e.moved = now.Ms
		if o := s.orderOf(e); o.head != i {
			o.remove(t.entries, i)
			o.push(t.entries, i)
		}
	}
}

func dayOf(ms int64) int32 { return int32(ms / (24 * time.Hour).Milliseconds()) } // #nosec G115 -- until the year 5881580

// roll moves the daily counts on to the given day.
func (e *seenClient) roll(day int32) {
	by := day - e.day
	if by <= 0 { // the clock was put back: count on
		return
	}
	e.daily = shifted(e.daily, by)
	e.day = day
}

// shifted are daily counts by days later.
func shifted(daily [7]uint32, by int32) [7]uint32 {
	var out [7]uint32
	if by < 0 {
		by = 0
	}
	if int(by) < len(out) {
		copy(out[by:], daily[:])
	}
	return out
}

// doorSlot remembers a client that asked once. The seen table is for those that
// ask again: a scan or a flood of forged addresses does not get in.
type doorSlot struct {
	tag      uint64 // its hash; 0: free
	first    int64  // Unix ms
	answered uint16 // how its queries so far ended
	errors   uint16
	queries  uint16
	retries  uint8
	refused  bool // was counted as not let in
}

func (s *shard) doorOf(h uint64) *doorSlot {
	return &s.door[(h>>20)&uint64(len(s.door)-1)]
}

func doorTag(h uint64) uint64 { return h | 1 }

// knock notes a query of a client that has no entry. It says whether the client
// has asked before.
func (d *doorSlot) knock(h uint64, retry bool, ms int64) bool {
	again := d.tag == doorTag(h)
	if !again {
		*d = doorSlot{tag: doorTag(h), first: ms}
	}
	if d.queries < 1<<16-1 {
		d.queries++
	}
	if retry && d.retries < 1<<8-1 {
		d.retries++
	}
	return again
}

// admit lets the client of tk into the table, if there is or can be made room.
// It is called without any lock held.
func (t *Table) admit(tk *Ticket, now Moment) {
	t.admission.Lock()
	defer t.admission.Unlock()
	s := t.shardOf(tk.hash)

	s.mu.Lock()
	if i := t.find(s, tk.addr, tk.hash); i != 0 { // another query of its did it
		t.see(s, i, tk.retry, now)
		tk.entry, tk.gen = i, t.entries[i].gen
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()

	i := t.room()

	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.doorOf(tk.hash)
	mine := d.tag == doorTag(tk.hash)
	if i == 0 {
		if !mine || !d.refused {
			t.dropped.Add(1)
		}
		d.refused = d.refused || mine
		return
	}
	t.gen++
	e := &t.entries[i]
	*e = seenClient{key: tk.addr, hash: tk.hash, gen: t.gen, first: now.Ms, last: now.Ms, moved: now.Ms, day: dayOf(now.Ms)}
	if mine {
		e.first = min(d.first, now.Ms)
		e.queries, e.answers = uint64(d.queries), uint64(d.answered)
		e.errors, e.retries = uint64(d.errors), uint64(d.retries)
		*d = doorSlot{}
	} else { // its slot went to another in between
		e.queries = 1
		if tk.retry {
			e.retries = 1
		}
	}
	e.daily[0] = uint32(e.queries) // #nosec G115 -- at most 65535
	e.kept = t.isTarget(tk.addr)
	t.link(s, i)
	tk.entry, tk.gen = i, e.gen
}

// room is a free entry, if need be the one that was least recently seen; 0 if
// all are targets of the running drill. The caller holds admission and no shard.
func (t *Table) room() uint32 {
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		return i
	}
	for {
		victim, last := (*shard)(nil), int64(0)
		for j := range t.shards {
			s := &t.shards[j]
			s.mu.Lock()
			if s.live.tail != 0 {
				if l := t.entries[s.live.tail].last; victim == nil || l < last {
					victim, last = s, l
				}
			}
			s.mu.Unlock()
		}
		if victim == nil {
			return 0
		}
		victim.mu.Lock()
		i := victim.live.tail
		if i != 0 {
			t.unlink(victim, i)
			// A ticket that still points here must miss until the entry is used again.
			t.entries[i].gen = 0
		}
		victim.mu.Unlock()
		if i != 0 {
			t.dropped.Add(1)
			return i
		}
	}
}

// Resize gives the table room for size clients. If it shrinks, those seen last
// stay.
func (t *Table) Resize(size int) {
	t.admission.Lock()
	defer t.admission.Unlock()
	if size == t.max {
		return
	}
	t.lockAll()
	defer t.unlockAll()
	was := t.all()
	var doors [shardCount][]doorSlot
	for j := range t.shards {
		doors[j] = t.shards[j].door
	}
	t.allocate(size)
	t.fill(was)
	for j, door := range doors {
		for _, d := range door {
			if d.tag != 0 {
				*t.shards[j].doorOf(d.tag) = d
			}
		}
	}
}

// all are the entries in use, in no order. The caller holds all locks.
func (t *Table) all() []seenClient {
	var out []seenClient
	for j := range t.shards {
		for _, o := range []order{t.shards[j].kept, t.shards[j].live} {
			for i := o.head; i != 0; i = t.entries[i].next {
				out = append(out, t.entries[i])
			}
		}
	}
	return out
}

// fill puts clients into the empty table, the last seen and the kept ones first;
// for whom there is no room is dropped. The caller holds all locks.
func (t *Table) fill(clients []seenClient) {
	slices.SortFunc(clients, func(a, b seenClient) int {
		if a.kept != b.kept {
			if a.kept {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.last, a.last)
	})
	if len(clients) > t.max {
		t.dropped.Add(uint64(len(clients) - t.max))
		clients = clients[:t.max]
	}
	// The list's head is the latest: push the oldest first.
	for _, c := range slices.Backward(clients) {
		n := len(t.free)
		i := t.free[n-1]
		t.free = t.free[:n-1]
		t.gen++
		c.gen, c.chain, c.prev, c.next, c.moved = t.gen, 0, 0, 0, c.last
		t.entries[i] = c
		t.link(t.shardOf(c.hash), i)
	}
}

// Seen is one page of the table: up to limit clients in the order of their
// addresses, from the first one above after.
func (t *Table) Seen(after netip.Addr, limit int, now Moment) (page []protocol.SeenClient, total int, more bool) {
	limit = max(1, min(limit, protocol.MaxSeenPage))
	all := t.snapshot()
	slices.SortFunc(all, func(a, b seenClient) int { return a.key.addr().Compare(b.key.addr()) })
	start := 0
	if after.IsValid() {
		start, _ = slices.BinarySearchFunc(all, after, func(c seenClient, a netip.Addr) int {
			if c.key.addr().Compare(a) <= 0 {
				return -1
			}
			return 1
		})
	}
	end := min(start+limit, len(all))
	today := dayOf(now.Ms)
	page = make([]protocol.SeenClient, 0, end-start)
	for _, c := range all[start:end] {
		page = append(page, protocol.SeenClient{
			Address: c.key.addr().String(),
			First:   time.UnixMilli(c.first).UTC(),
			Last:    time.UnixMilli(c.last).UTC(),
			Queries: c.queries,
			Answers: c.answers,
			Errors:  c.errors,
			Retries: c.retries,
			Daily:   shifted(c.daily, today-c.day),
		})
	}
	return page, len(all), end < len(all)
}

// snapshot copies the entries in use, shard by shard.
func (t *Table) snapshot() []seenClient {
	out := make([]seenClient, 0, t.Len())
	for j := range t.shards {
		s := &t.shards[j]
		s.mu.Lock()
		for _, o := range []order{s.kept, s.live} {
			for i := o.head; i != 0; i = t.entries[i].next {
				out = append(out, t.entries[i])
			}
		}
		s.mu.Unlock()
	}
	return out
}

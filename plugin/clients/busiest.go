package clients

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// busyHalf is the time after which half of what a client asked no longer
	// makes it busy.
	busyHalf = 5 * time.Minute
	// busyStay is how long a client stays among the busiest once it is: series
	// that come and go every minute cost a monitoring system more than they say.
	busyStay = 10 * time.Minute
)

// busyClient is one of the busiest, with what it asked since it is one of them.
type busyClient struct {
	addr             netip.Addr
	queries, retries uint64
	since            int64 // Moment.Mono
	lastQ, lastR     uint64
	newQ, newR       uint64 // of these, since the last look
}

// busiest follows the clients that ask most, for the metrics. What all others
// asked is one sum, and all sums only grow: a client that joins starts at 0.
type busiest struct {
	mu             sync.Mutex
	table          *Table
	top            int
	in             map[addrKey]*busyClient
	scoredAt       int64
	seenQ, seenR   uint64 // totals when last looked at
	otherQ, otherR uint64
}

// setTop changes how many there are.
func (b *busiest) setTop(n int) {
	b.mu.Lock()
	b.top = n
	b.mu.Unlock()
}

// look brings the counts up to now and chooses who is in.
func (b *busiest) look(now Moment) (clients []busyClient, otherQ, otherR uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.in == nil {
		b.in = make(map[addrKey]*busyClient)
		b.scoredAt = now.Mono
	}
	scored := b.table.score(now.Mono - b.scoredAt)
	b.scoredAt = now.Mono
	// Totals are read after the table, so that they hold all that it says.
	total := b.table.counters()
	newQ, newR := total.queries-b.seenQ, total.retries-b.seenR
	b.seenQ, b.seenR = total.queries, total.retries

	for _, c := range b.in {
		c.newQ, c.newR = 0, 0
	}
	var insideQ, insideR uint64
	for i := range scored {
		s := &scored[i]
		c := b.in[s.key]
		if c == nil {
			continue
		}
		if s.queries < c.lastQ { // it was replaced and came back
			c.lastQ, c.lastR = 0, 0
		}
		q, r := s.queries-c.lastQ, s.retries-min(c.lastR, s.retries)
		c.queries, c.retries = c.queries+q, c.retries+r
		c.newQ, c.newR = q, r
		c.lastQ, c.lastR = s.queries, s.retries
		insideQ, insideR = insideQ+q, insideR+r
	}
	// What a member asked between two looks but after the totals were read comes
	// with the next look: never below 0.
	if newQ < insideQ {
		b.seenQ += insideQ - newQ
		newQ = insideQ
	}
	if newR < insideR {
		b.seenR += insideR - newR
		newR = insideR
	}
	b.otherQ, b.otherR = b.otherQ+newQ-insideQ, b.otherR+newR-insideR

	b.choose(scored, now.Mono)
	for _, c := range b.in {
		clients = append(clients, *c)
	}
	slices.SortFunc(clients, func(x, y busyClient) int { return x.addr.Compare(y.addr) })
	return clients, b.otherQ, b.otherR
}

// choose lets those go who are not busy any more and have been in long enough,
// and fills the places.
func (b *busiest) choose(scored []seenClient, mono int64) {
	slices.SortFunc(scored, func(x, y seenClient) int {
		if c := cmp.Compare(y.score, x.score); c != 0 {
			return c
		}
		return x.key.addr().Compare(y.key.addr())
	})
	busy := make(map[addrKey]bool, b.top)
	for _, s := range scored[:min(b.top, len(scored))] {
		if s.score > 0 {
			busy[s.key] = true
		}
	}
	for k, c := range b.in {
		if !busy[k] && mono-c.since >= int64(busyStay) || len(b.in) > b.top {
			delete(b.in, k)
			// Nobody will see its last count: what is new in it is others' now.
			b.otherQ, b.otherR = b.otherQ+c.newQ, b.otherR+c.newR
		}
	}
	for _, s := range scored {
		if len(b.in) >= b.top || s.score <= 0 {
			break
		}
		if b.in[s.key] == nil {
			b.in[s.key] = &busyClient{addr: s.key.addr(), since: mono, lastQ: s.queries, lastR: s.retries}
		}
	}
}

// score brings every client's score up to date, elapsed nanoseconds after the
// last time, and copies the clients.
func (t *Table) score(elapsed int64) []seenClient {
	fade := float32(math.Exp2(-float64(elapsed) / float64(busyHalf)))
	out := make([]seenClient, 0, t.Len())
	for j := range t.shards {
		s := &t.shards[j]
		s.mu.Lock()
		for _, o := range []order{s.kept, s.live} {
			for i := o.head; i != 0; i = t.entries[i].next {
				e := &t.entries[i]
				e.score = e.score*fade + float32(e.queries-e.scored)
				e.scored = e.queries
				out = append(out, *e)
			}
		}
		s.mu.Unlock()
	}
	return out
}

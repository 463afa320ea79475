package nodecache

import (
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/miekg/dns"
)

// held is a query that waits for a flight without a goroutine of its own: a few
// hundred bytes instead of many thousand.
type held struct {
	packet []byte
	peer   wire.Peer
	ipv4   bool
	engine *engine
	route  *route
	ticket clients.Ticket
	began  clients.Moment
}

// hold keeps packet i until its question's flight lands. false: there is none, or
// too many wait.
func (w *worker) hold(b *wire.Batch, i int, r *route) bool {
	c, p := r.cache, &b.Packets[i]
	if !c.flights.hold(&w.key, func() held {
		return held{
			packet: append([]byte(nil), p.Buf[:p.Len]...),
			peer:   b.Peer(i), ipv4: p.Addr.Is4(),
			engine: w.engine, route: r,
			ticket: w.ask(p, r), began: w.now,
		}
	}) {
		return false
	}
	w.coalesced++
	return true
}

// hold adds to who waits for a question that came as a datagram.
func (s *flights) hold(k *key, make func() held) bool {
	var room [maxName + 8]byte
	id := append(append(room[:0], k.name...), byte(k.qtype>>8), byte(k.qtype), k.flags)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.on[string(id)]
	if f == nil {
		return false
	}
	if s.waiting.Add(1) > maxWaiters {
		s.waiting.Add(-1)
		return false
	}
	f.held = append(f.held, make())
	return true
}

// answer answers a query that was held.
func (h *held) answer(c *Cache, f *flight) {
	defer c.flights.left()
	var q wire.Query
	if f.answer == nil || !q.Parse(h.packet) {
		return
	}
	e, now := f.answer, clients.Now()
	a := c.aging(e, now.Mono, f.stale)
	size, limit := sizes(&q, h.route)
	buf := make([]byte, max(e.room(&q, a), len(h.packet)))
	copy(buf, h.packet)
	n := e.put(buf, &q, size, a)
	cut := n > limit || e.flags&truncated != 0
	if cut {
		buf[2] |= bitTC
	}
	if n > limit {
		if buf = shorten(buf[:n], limit); buf == nil {
			return
		}
		n = len(buf)
	}
	rcode := e.header[1] & 0xf
	if h.ticket.Counted() {
		h.engine.clients.Answered(&h.ticket, int(rcode), cut, now)
		failed := 0
		if rcode == dns.RcodeServerFailure || rcode == dns.RcodeRefused {
			failed = 1
		}
		h.engine.at.AddAnswers(1, failed)
	}
	if h.route.report != nil {
		var t tally
		h.route.report.add(&t, &q, h.ipv4, rcode, len(h.packet), n)
		h.route.report.took(time.Duration(now.Mono - h.began.Mono))
		t.flush()
	}
	if f.stale {
		h.engine.metrics.stale.Inc()
	}
	_ = h.peer.Send(buf[:n]) // the client went away: nobody to tell
}

const bitTC = 2

// shorten cuts an answer as CoreDNS does: what fits is sent, for clients that do
// not try TCP.
func shorten(answer []byte, limit int) []byte {
	m := new(dns.Msg)
	if m.Unpack(answer) != nil {
		return nil
	}
	m.Truncate(limit)
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}

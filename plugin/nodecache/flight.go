package nodecache

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/hedge/late"

	"github.com/coredns/coredns/plugin"

	"github.com/miekg/dns"
)

const (
	// maxWait is how long a query waits for upstreams; they have deadlines of their
	// own, which are shorter.
	maxWait = 10 * time.Second
	// maxFlights is how many questions of a server block are on their way at once,
	// and maxWaiters how many queries wait for them.
	maxFlights = 16384
	maxWaiters = 65536
	// upstreamSize is the UDP size that upstreams are told (DNS flag day 2020).
	upstreamSize = 1232
)

// flights are the questions that are on their way, for one server block.
type flights struct {
	mu      sync.Mutex
	on      map[string]*flight
	waiting atomic.Int64
}

// flight is one question on its way. What it brings is set before done is closed.
type flight struct {
	id     string
	began  time.Time
	purges uint64
	done   chan struct{}

	answer *entry // nil: nothing was written
	stale  bool   // answer is an older one
	rcode  int
	err    error

	held []held // guarded by flights.mu
}

// join is the flight for a question, and whether the caller is to lead it. Those
// that come over a connection have one of their own: what comes back may be cut to
// a datagram. nil: there are too many. Who does not lead and does not get nil
// calls left when it stops waiting.
func (s *flights) join(k *key, stream bool) (f *flight, leads bool) {
	var room [maxName + 8]byte
	id := append(append(room[:0], k.name...), byte(k.qtype>>8), byte(k.qtype), k.flags)
	if stream {
		id = append(id, 1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.on[string(id)]; f != nil {
		if s.waiting.Add(1) > maxWaiters {
			s.waiting.Add(-1)
			return nil, false
		}
		return f, false
	}
	if len(s.on) >= maxFlights {
		return nil, false
	}
	if s.on == nil {
		s.on = make(map[string]*flight)
	}
	f = &flight{id: string(id), began: time.Now(), done: make(chan struct{})}
	s.on[f.id] = f
	return f, true
}

func (s *flights) left() { s.waiting.Add(-1) }

// land ends a flight and says who is held for it.
func (s *flights) land(f *flight) []held {
	s.mu.Lock()
	delete(s.on, f.id)
	h := f.held
	f.held = nil
	s.mu.Unlock()
	close(f.done)
	return h
}

// lead asks the plugins behind and lands the flight. stale is what is answered
// instead if they fail, or nil.
func (c *Cache) lead(ctx context.Context, f *flight, k *key, from origin, stale *entry) {
	f.purges = c.store.purges.Load()
	defer func() {
		if p := recover(); p != nil {
			f.answer, f.err = tookTooLong(k), fmt.Errorf("a plugin behind nodecache panicked: %v", p)
			c.finish(f)
			panic(p) // CoreDNS has a say in this: debug
		}
		c.finish(f)
	}()
	up := upstreamQuestion(k)
	ctx = late.With(ctx, c.takesLate(k, f.purges))
	got := &capture{origin: from}
	rcode, err := plugin.NextOrFailure(pluginName, c.Next, ctx, got, up)
	if got.msg != nil && got.msg.Truncated && from == nowhere {
		// Nobody waits for it, so it need not be what a datagram holds.
		got = &capture{origin: nowhereByStream}
		rcode, err = plugin.NextOrFailure(pluginName, c.Next, ctx, got, up)
	}
	c.settle(f, k, up, got.msg, rcode, err, stale)
}

// takesLate keeps an answer that comes after whoever asked was told that there is
// none: the next one has it.
func (c *Cache) takesLate(k *key, purges uint64) func(*dns.Msg) {
	return func(m *dns.Msg) {
		up := upstreamQuestion(k).Question[0]
		if !answers(m, &up) || m.Rcode > 0xf {
			return
		}
		e, err := newEntry(k, up.Name, m, &c.options.lifetimes, clients.Now().Mono)
		if err != nil || e.kind.failed() || !c.options.stores(e.kind, up.Name) {
			return
		}
		c.upstreams.answered(e.stored)
		e.hold = c.options.holdFor(e.kind, up.Name)
		c.store.put(e, purges)
	}
}

// upstreamQuestion is what is asked upstream. Nothing of the client goes with it
// but the question: no subnet, no cookie. AD says that we understand it in the
// answer (RFC 6840, 5.7), which is kept for the clients that do.
func upstreamQuestion(k *key) *dns.Msg {
	name, _, err := dns.UnpackDomainName(k.name, 0)
	if err != nil {
		name = "." // cannot be: it was packed or parsed
	}
	m := new(dns.Msg)
	m.SetQuestion(name, k.qtype)
	m.AuthenticatedData = true
	m.CheckingDisabled = k.flags&keyCD != 0
	m.SetEdns0(upstreamSize, k.flags&keyDO != 0)
	return m
}

// settle decides what a flight's answer is, and whether it is kept.
func (c *Cache) settle(f *flight, k *key, up, m *dns.Msg, rcode int, err error, stale *entry) {
	f.rcode, f.err = rcode, err
	now := clients.Now().Mono
	o := c.options
	if old := c.store.get(k); stale == nil && c.state(old, now) == staleLater {
		stale = old // it became so meanwhile
	}
	if m == nil && plugin.ClientWrite(rcode) && err == nil {
		return // silent on purpose
	}
	var e *entry
	switch {
	case m == nil && rcode == dns.RcodeSuccess:
		rcode = dns.RcodeServerFailure
		fallthrough
	case m == nil:
		e = failed(k, byte(rcode&0xf), dns.ExtendedErrorCodeNoReachableAuthority, "")
		e.kind, e.ttl, e.stored = unreachable, briefly, now
	case m.Rcode > 0xf:
		e = failed(k, dns.RcodeServerFailure, dns.ExtendedErrorCodeOther, "an upstream answered with an EDNS error")
		e.kind = failure
	case !answers(m, &up.Question[0]):
		c.metrics().mismatched.Inc()
		e = failed(k, dns.RcodeServerFailure, dns.ExtendedErrorCodeOther, "an upstream answered another question")
		e.kind = failure
	default:
		var bad error
		if e, bad = newEntry(k, up.Question[0].Name, m, &o.lifetimes, now); bad != nil {
			log.Debugf("Cannot keep an answer for %s: %v", up.Question[0].Name, bad)
			e = failed(k, dns.RcodeServerFailure, dns.ExtendedErrorCodeInvalidData, "the upstream's answer cannot be read")
			e.kind = failure
		} else if e.kind == failure && err != nil {
			e.kind, e.ttl = unreachable, briefly // the plugin's own words for it
		}
	}
	f.answer = e
	switch e.kind {
	case failure: // of that name, for all that is known
	case unreachable:
		c.upstreams.lost(now)
	default:
		c.upstreams.answered(now)
	}
	if usable(stale, now) && (e.kind == failure || e.kind == unreachable || o.keepsPositive(stale, e, now)) {
		stale.retryAt.Store(c.upstreams.retryAt(o.failureRecheck, now))
		f.answer, f.stale = stale, now-stale.stored >= int64(stale.ttl)*int64(time.Second)
		c.metrics().failedRefreshes.Inc()
		return
	}
	if e.kind == unstored || e.ttl == 0 || !o.stores(e.kind, up.Question[0].Name) {
		return
	}
	e.hold = o.holdFor(e.kind, up.Question[0].Name)
	c.store.put(e, f.purges)
}

// usable says whether an older answer can still be given.
func usable(e *entry, now int64) bool {
	return e != nil && now-e.stored < int64(e.ttl+e.hold)*int64(time.Second)
}

// finish lands a flight and answers who is held.
func (c *Cache) finish(f *flight) {
	for _, h := range c.flights.land(f) {
		h.answer(c, f)
	}
}

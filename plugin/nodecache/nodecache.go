// Package nodecache is the cache of a node: every record counts down its own TTL,
// one upstream question at a time per name, stale answers when upstreams fail, and
// a bound in bytes that no scan can abuse.
//
// An answer is an entry: bytes as they go out, with the offsets of its TTLs
// (entry.go). Entries of all server blocks are in one store (store.go): a table
// that is read without a lock, and two shares, of answers and of denials, each
// with an eviction that wants an entry asked twice before it keeps it. The store
// belongs to the process and outlives reloads (process.go) and, with a snapshot,
// restarts. What is not held is asked in a flight (flight.go), which all who ask
// the same meanwhile wait for.
//
// There are two ways to it that answer alike: ServeDNS for CoreDNS's chain, and
// an engine for package wire (engine.go), which answers hits without it.
package nodecache

import (
	"context"
	"sync/atomic"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/request"

	"github.com/miekg/dns"
)

// Cache is the plugin's handler: the cache of one server block.
type Cache struct {
	Next plugin.Handler

	options *options
	block   uint16 // whose entries are this server block's
	store   *store
	bypass  []string // zones that a plugin behind wants asked every time
	flights flights

	upstreams comeback                         // those that Next asks
	server    atomic.Pointer[dnsserver.Server] // one that this block is served by
}

// Name implements plugin.Handler.
func (*Cache) Name() string { return pluginName }

// ServeDNS implements plugin.Handler.
func (c *Cache) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	var k key
	n := c.keyOf(r, &k)
	if n == 0 {
		return plugin.NextOrFailure(pluginName, c.Next, ctx, w, r)
	}
	k.name = k.buf[:n] // not in keyOf: k would go to the heap
	server, _ := ctx.Value(dnsserver.Key{}).(*dnsserver.Server)
	m := metricsOf(server)
	if server != nil && c.server.Load() != server {
		c.server.Store(server)
	}
	now := clients.Now().Mono
	e := c.store.get(&k)
	switch c.state(e, now) {
	case fresh:
		if c.touch(e, now) {
			go c.refresh(e)
		}
		m.hit(e.kind, 1)
		return c.write(w, r, e, now, false)
	case staleNow:
		if c.retryDue(e, now) {
			go c.refresh(e)
		}
		m.stale.Inc()
		return c.write(w, r, e, now, true)
	case staleLater:
		m.misses.Inc()
		return c.ask(ctx, w, r, k.clone(), e)
	}
	m.misses.Inc()
	return c.ask(ctx, w, r, k.clone(), nil)
}

// keyOf makes the key of a question, but for its name, which it leaves in the
// key's buffer with this length; 0 if the answer is not to be cached.
func (c *Cache) keyOf(r *dns.Msg, k *key) int {
	if r.Opcode != dns.OpcodeQuery || len(r.Question) != 1 || !r.RecursionDesired || r.Response {
		return 0
	}
	q := &r.Question[0]
	if q.Qclass != dns.ClassINET || !wire.IsData(q.Qtype) || r.IsTsig() != nil {
		return 0
	}
	n, err := dns.PackDomainName(q.Name, k.buf[:], 0, nil, false)
	if err != nil || n > maxName {
		return 0
	}
	wire.Lower(k.buf[:n])
	k.block, k.qtype = c.block, q.Qtype
	k.flags = flagsOf(r.IsEdns0() != nil && r.IsEdns0().Do(), r.CheckingDisabled)
	if !c.options.covers(q.Name) || plugin.Zones(c.bypass).Contains(q.Name) {
		return 0
	}
	return n
}

// state says what an entry is good for at the moment.
func (c *Cache) state(e *entry, now int64) state {
	if e == nil {
		return gone
	}
	age := now - e.stored
	if age < int64(e.ttl)*int64(time.Second) {
		if e.kind == unreachable && c.upstreams.good.Load() > e.stored {
			return gone // forgotten at the first success
		}
		return fresh
	}
	if age >= int64(e.ttl+e.hold)*int64(time.Second) {
		return gone
	}
	if e.retryAt.Load() != 0 {
		return staleNow
	}
	return staleLater
}

// touch notes that a fresh entry was asked for. It says true to one caller when
// the entry should be fetched before it expires.
func (c *Cache) touch(e *entry, now int64) bool {
	asks := e.touch(now, c.options.prefetchGap)
	o := c.options
	if o.prefetch == 0 || asks < o.prefetch || e.kind == failure || e.kind == unreachable {
		return false
	}
	left := int64(e.ttl)*int64(time.Second) - (now - e.stored)
	window := max(int64(e.ttl)*int64(time.Second)*int64(o.prefetchPercent)/100, int64(time.Second))
	return left <= window && e.retryAt.CompareAndSwap(0, secondsOf(now+int64(o.failureRecheck)))
}

// retryDue says true to one caller when a stale entry's refresh is to be tried
// again.
func (c *Cache) retryDue(e *entry, now int64) bool {
	at := e.retryAt.Load()
	return c.upstreams.due(at, c.options.failureRecheck, now) && e.retryAt.CompareAndSwap(at, secondsOf(now+int64(c.options.failureRecheck)))
}

// write answers from an entry.
func (c *Cache) write(w dns.ResponseWriter, r *dns.Msg, e *entry, now int64, stale bool) (int, error) {
	m, err := e.messageInTurn(r, c.aging(e, now, stale))
	if err != nil {
		return dns.RcodeServerFailure, err
	}
	_ = w.WriteMsg(m) // the client went away: nobody to tell
	return dns.RcodeSuccess, nil
}

// aging is how an entry's TTLs go out now.
func (c *Cache) aging(e *entry, now int64, stale bool) aging {
	if stale {
		return aging{stale: true, ttl: c.options.staleTTL}
	}
	return aging{age: uint32((now - e.stored) / int64(time.Second))} // #nosec G115 -- below the TTL
}

// ask gets an answer from the plugins behind, together with whoever else asks the
// same. held is a stale entry that is answered if that takes too long or fails,
// or nil. k is its to keep.
func (c *Cache) ask(ctx context.Context, w dns.ResponseWriter, r *dns.Msg, k *key, held *entry) (int, error) {
	server, _ := ctx.Value(dnsserver.Key{}).(*dnsserver.Server)
	m := metricsOf(server)
	state := request.Request{W: w, Req: r}
	f, leads := c.flights.join(k, state.Proto() == "tcp")
	switch {
	case f == nil:
		m.overflow.Inc()
		if held != nil {
			m.stale.Inc()
			return c.write(w, r, held, clients.Now().Mono, true)
		}
		return c.write(w, r, tooMany(k), 0, false)
	case leads && held == nil:
		// Whoever asked first may go away; the others still want the answer.
		c.lead(context.WithoutCancel(ctx), f, k, originOf(w), nil)
		return c.deliver(w, r, f)
	case leads:
		behind := metadata.ContextWithMetadata(context.WithoutCancel(ctx))
		for label, value := range metadata.ValueFuncs(ctx) {
			metadata.SetValueFunc(behind, label, value)
		}
		go c.lead(behind, f, k, originOf(w), held)
	default:
		m.coalesced.Inc()
		defer c.flights.left()
	}

	patience := maxWait
	if held != nil {
		patience = max(c.options.staleWait-time.Since(f.began), 0)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-f.done:
		return c.deliver(w, r, f)
	case <-ctx.Done():
		return dns.RcodeServerFailure, ctx.Err()
	case <-timer.C:
	}
	if held == nil {
		return c.write(w, r, tookTooLong(k), 0, false)
	}
	now := clients.Now().Mono
	// From now on the others need not wait, until the refresh is known to have failed.
	held.retryAt.CompareAndSwap(0, secondsOf(now+int64(maxWait)))
	m.stale.Inc()
	return c.write(w, r, held, now, true)
}

// deliver answers with what a flight brought.
func (c *Cache) deliver(w dns.ResponseWriter, r *dns.Msg, f *flight) (int, error) {
	if f.answer == nil { // a plugin behind chose to be silent
		return f.rcode, f.err
	}
	code, err := c.write(w, r, f.answer, clients.Now().Mono, f.stale)
	if err == nil {
		err = f.err
	}
	return code, err
}

// metrics are those of a server that the block is served by.
func (c *Cache) metrics() *counters { return metricsOf(c.server.Load()) }

// refresh asks again for what an entry holds, behind the clients.
func (c *Cache) refresh(e *entry) {
	k := e.key()
	f, leads := c.flights.join(k, false)
	if f == nil {
		return
	}
	if !leads {
		c.flights.left()
		return
	}
	ctx := context.Background()
	if s := c.server.Load(); s != nil {
		ctx = context.WithValue(context.WithValue(ctx, dnsserver.Key{}, s), dnsserver.LoopKey{}, 0)
	}
	c.metrics().refreshes.Inc()
	c.lead(ctx, f, k, nowhere, e)
}

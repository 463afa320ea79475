package nodecache

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/drill"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics"

	"github.com/miekg/dns"
)

// standsFor are the plugins ahead of the cache whose work the engine does too.
// nodelocal only notes its own questions, whose mark is an option that the engine
// leaves to the chain.
var standsFor = []string{"nodelocal", "clients", "drill", "prometheus"}

// engine answers hits at one address without CoreDNS's chain, and holds the
// queries for what is on its way. It does what clients, drill and prometheus do,
// in their order; all else it leaves to the chain.
type engine struct {
	server  string
	routes  []route // the longest zone first
	clients *clients.Process
	at      *clients.Listener
	metrics *counters
	answers *atomic.Uint64
}

// route is what becomes of names below a zone.
type route struct {
	zone    []byte // in wire form, lower case
	cache   *Cache // nil: the chain answers
	clients bool
	drill   bool
	report  *report // nil: no prometheus
	maxSize int     // of bufsize; 0: none
}

// answered counts queries by server address; it outlives engines.
var answered sync.Map

func answeredAt(server string) *atomic.Uint64 {
	n, _ := answered.LoadOrStore(server, new(atomic.Uint64))
	return n.(*atomic.Uint64) //nolint:errcheck // nothing else is in there
}

// newEngine is the engine for a listener. cacheOf is the cache of a zone's server
// block.
func newEngine(l *wire.Listener, cacheOf func(*dnsserver.Config) *Cache) *engine {
	e := &engine{
		server:  l.Server(),
		clients: clients.Current(),
		at:      clients.ListenerOf(l.Server()),
		metrics: countersOf(l.Server()),
		answers: answeredAt(l.Server()),
	}
	for _, zone := range borders(l, cacheOf) {
		e.routes = append(e.routes, newRoute(l, zone, cacheOf))
	}
	slices.SortFunc(e.routes, func(a, b route) int { return len(b.zone) - len(a.zone) })
	return e
}

// borders are the zones below which something changes: the server block, whether
// the cache is for it, or under which zone it is counted.
func borders(l *wire.Listener, cacheOf func(*dnsserver.Config) *Cache) []string {
	var zones []string
	for _, b := range l.Blocks {
		zones = append(zones, b.Zone)
		if c := cacheOf(b.Config); c != nil {
			zones = append(append(zones, c.options.zones...), c.bypass...)
		}
		if m, ok := b.Ahead("prometheus", pluginName).(*metrics.Metrics); ok {
			zones = append(zones, m.ZoneNames()...)
		}
	}
	for i, z := range zones {
		zones[i] = strings.ToLower(z)
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// newRoute is the route of the names below zone and above every other border.
func newRoute(l *wire.Listener, zone string, cacheOf func(*dnsserver.Config) *Cache) route {
	var room [maxName + 1]byte
	n, err := dns.PackDomainName(zone, room[:], 0, nil, false)
	if err != nil {
		return route{zone: []byte{0}} // no name is below it, and CoreDNS has no such zone
	}
	r := route{zone: slices.Clone(room[:n])}
	var of *wire.Block
	for i := range l.Blocks {
		b := &l.Blocks[i]
		if dns.IsSubDomain(b.Zone, zone) && (of == nil || len(b.Zone) > len(of.Zone)) {
			of = b
		}
	}
	if of == nil || slices.ContainsFunc(l.Blocks, func(b wire.Block) bool { return b.Zone == of.Zone && b.Off != "" }) {
		return r
	}
	c := cacheOf(of.Config)
	if c == nil || !c.options.covers(zone) || plugin.Zones(c.bypass).Contains(zone) {
		return r
	}
	r.cache = c
	r.clients = of.Ahead("clients", pluginName) != nil
	r.drill = of.Ahead("drill", pluginName) != nil
	r.maxSize = of.MaxSize
	if m, ok := of.Ahead("prometheus", pluginName).(*metrics.Metrics); ok {
		counted := plugin.Zones(m.ZoneNames()).Matches(zone)
		if counted == "" {
			counted = "."
		}
		r.report = newReport(l.Server(), counted, behind(of, "prometheus"))
	}
	return r
}

// behind is the name of the plugin behind another one: that is what prometheus
// takes for the one that answered.
func behind(b *wire.Block, name string) string {
	i := slices.IndexFunc(b.Handlers, func(h plugin.Handler) bool { return h.Name() == name })
	if i < 0 || i+1 >= len(b.Handlers) {
		return ""
	}
	return b.Handlers[i+1].Name()
}

// route is that of a query, or nil.
func (e *engine) route(q *wire.Query) *route {
	for i := range e.routes {
		if q.Within(e.routes[i].zone) {
			return &e.routes[i]
		}
	}
	return nil
}

// NewWorker implements wire.Engine.
func (e *engine) NewWorker() wire.Worker { return &worker{engine: e} }

// worker is an engine's part for one socket.
type worker struct {
	*engine
	q   wire.Query
	key key

	// Of one batch.
	now              clients.Moment
	queries, retries int
	answered, errors int
	stale, coalesced int
	hits             [unstored + 1]int
	tally            tally
	timed            []*report // of the answers, whose time is known at the end
}

// Respond implements wire.Worker.
func (w *worker) Respond(b *wire.Batch) {
	w.now = clients.Now()
	running := drill.Current().Running()
	sent := 0
	for i := range b.Packets {
		p := &b.Packets[i]
		if !w.q.Parse(p.Buf[:p.Len]) || w.q.Type == dns.TypeDS { // which CoreDNS asks a parent's block for
			continue
		}
		r := w.route(&w.q)
		if r == nil || r.cache == nil {
			continue
		}
		if running != nil && r.drill && running.Hits(p.Addr) {
			if running.Mode() == protocol.ModeDrop {
				w.drop(p, r, running)
			}
			continue
		}
		switch w.lookup(p, r) {
		case wire.Send:
			p.Verdict = wire.Send
			sent++
		case wire.Held:
			if w.hold(b, i, r) {
				p.Verdict = wire.Held
			}
		}
	}
	w.flush(sent)
}

// drop takes a query for a drill.
func (w *worker) drop(p *wire.Packet, r *route, running *drill.Running) {
	running.Count()
	drill.Dropped(w.server).Inc()
	if ticket := w.ask(p, r); ticket.Counted() {
		w.engine.clients.Drilled(&ticket, w.now)
	}
	p.Verdict = wire.Silent
}

// ask counts a query of a client.
func (w *worker) ask(p *wire.Packet, r *route) (t clients.Ticket) {
	if !r.clients || w.engine.clients == nil {
		return t
	}
	t = w.engine.clients.Query(clients.Query{
		Addr: p.Addr, Port: p.Port, ID: w.q.ID,
		Question: protocol.QuestionHash(w.q.Name(), w.q.Type, dns.ClassINET),
	}, w.now)
	if t.Counted() {
		w.queries++
		if t.Retry() {
			w.retries++
		}
	}
	return t
}

// lookup answers a query if it is a hit, and says Held if the answer may be on
// its way.
func (w *worker) lookup(p *wire.Packet, r *route) wire.Verdict {
	c, q := r.cache, &w.q
	w.key.name, w.key.qtype, w.key.block, w.key.flags = q.Name(), q.Type, c.block, flagsOf(q.DO, q.CD)
	now := w.now.Mono
	e := c.store.get(&w.key)
	s := c.state(e, now)
	switch s {
	case gone:
		return wire.Held
	case staleLater:
		return wire.Slow
	}
	a := c.aging(e, now, s == staleNow)
	size, limit := sizes(q, r)
	n := e.room(q, a)
	if n > limit || n > len(p.Buf) {
		return wire.Slow // it is cut there
	}
	switch s {
	case fresh:
		if c.touch(e, now) {
			go c.refresh(e)
		}
		w.hits[e.kind]++
	default:
		if c.retryDue(e, now) {
			go c.refresh(e)
		}
		w.stale++
	}
	asked := p.Len
	t := w.ask(p, r)
	p.Len = e.put(p.Buf, q, size, a)
	w.count(r, &t, e, p, asked)
	return wire.Send
}

// sizes are the UDP size that the answer says, and how long it may be.
func sizes(q *wire.Query, r *route) (size uint16, limit int) {
	size = q.Size
	if r.maxSize > 0 && int(size) > r.maxSize {
		size = uint16(r.maxSize) // #nosec G115 -- bufsize bounds it
	}
	return size, max(int(size), dns.MinMsgSize)
}

// count counts an answer.
func (w *worker) count(r *route, t *clients.Ticket, e *entry, p *wire.Packet, asked int) {
	rcode := e.header[1] & 0xf
	if t.Counted() {
		w.engine.clients.Answered(t, int(rcode), false, w.now)
		w.answered++
		if rcode == dns.RcodeServerFailure || rcode == dns.RcodeRefused {
			w.errors++
		}
	}
	if r.report != nil {
		r.report.add(&w.tally, &w.q, p.Addr.Is4(), rcode, asked, p.Len)
		w.timed = append(w.timed, r.report)
	}
}

// flush hands on what was counted in a batch.
func (w *worker) flush(sent int) {
	if sent > 0 {
		w.answers.Add(uint64(sent)) // #nosec G115 -- positive
	}
	if w.queries > 0 {
		w.at.Add(w.queries, w.retries)
		w.queries, w.retries = 0, 0
	}
	if w.answered > 0 {
		w.at.AddAnswers(w.answered, w.errors)
		w.answered, w.errors = 0, 0
	}
	for k, n := range w.hits {
		if n > 0 {
			w.metrics.hits[k].Add(float64(n))
			w.hits[k] = 0
		}
	}
	if w.stale > 0 {
		w.metrics.stale.Add(float64(w.stale))
		w.stale = 0
	}
	if w.coalesced > 0 {
		w.metrics.misses.Add(float64(w.coalesced))
		w.metrics.coalesced.Add(float64(w.coalesced))
		w.coalesced = 0
	}
	w.tally.flush()
	if len(w.timed) > 0 {
		took := time.Duration(clients.Now().Mono - w.now.Mono)
		for _, r := range w.timed {
			r.took(took)
		}
		w.timed = w.timed[:0]
	}
}

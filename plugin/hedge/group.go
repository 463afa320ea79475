package hedge

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"firebreakdns.io/firebreak/plugin/hedge/endpoints"
	"firebreakdns.io/firebreak/plugin/hedge/engine"
	"firebreakdns.io/firebreak/plugin/hedge/exchange"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// maxUpstreams of one hedge. What is beyond is not asked: a few would do.
const maxUpstreams = 256

// began is the zero of all engines' time, on the monotonic clock.
var began = time.Now()

// group is one hedge of a Corefile, while it runs.
type group struct {
	options *options
	view    *engine.View
	core    *engine.Core
	done    chan struct{} // closed at the end
	attend  chan struct{} // wakes the keeper
	current atomic.Pointer[map[string]*peer]
	waiting atomic.Int64 // questions under way

	mu       sync.Mutex
	up       bool
	ended    bool
	wg       sync.WaitGroup
	lists    [][]endpoints.Endpoint // by target; nil: not known yet
	unfollow []func()               // ends what follows the sources

	late     prometheus.Counter
	answers  sync.Map // key -> *upstreamMetrics
	denied   uint64   // as the engine had counted when it was last looked at
	ownNow   func(netip.AddrPort) bool
	probeMsg *exchange.Query
}

// peer is an upstream's sockets.
type peer struct {
	*exchange.Peer
	addr netip.AddrPort
}

func newGroup(o *options) *group {
	g := &group{
		options: o,
		done:    make(chan struct{}),
		attend:  make(chan struct{}, 1),
		lists:   make([][]endpoints.Endpoint, len(o.targets)),
		late:    lateTotal.WithLabelValues(o.from),
		ownNow:  o.own,
	}
	g.current.Store(&map[string]*peer{})
	return g
}

func (g *group) now() engine.Time             { return time.Since(began) }
func (g *group) at(t engine.Time) time.Time   { return began.Add(t) }
func (g *group) peer(key string) *peer        { return (*g.current.Load())[key] }
func (g *group) wall(t engine.Time) time.Time { return time.Now().Add(t - g.now()) }

func (g *group) started() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.up && !g.ended
}

// enter counts a question; false: there are as many as there may be.
func (g *group) enter() bool {
	if g.waiting.Add(1) > int64(g.options.maxConcurrent) {
		g.waiting.Add(-1)
		return false
	}
	return true
}

func (g *group) leave() { g.waiting.Add(-1) }

// spawn runs do in a goroutine that the end waits for; false: it has ended.
func (g *group) spawn(do func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return false
	}
	g.wg.Go(do)
	return true
}

// wake has the keeper look.
func (g *group) wake() {
	select {
	case g.attend <- struct{}{}:
	default:
	}
}

// start follows the upstreams and begins to ask them. core is what was learnt of
// them before.
func (g *group) start(p *process, core *engine.Core) {
	g.core = core
	g.view = core.View(engine.Options{Prefer: g.options.prefer(), Deadline: g.options.deadline, Life: g.options.life()})
	g.probeMsg = g.options.probe.query()
	g.mu.Lock()
	g.up = true
	g.mu.Unlock()
	for i, t := range g.options.targets {
		if t.static() {
			g.found(i, []endpoints.Endpoint{{Addr: t.addr, Tier: endpoints.TierAnybody}})
			continue
		}
		if last := p.lastKnown(g.options, t); len(last) > 0 {
			g.found(i, last)
		} else if len(g.options.fallback) > 0 && t.service != nil {
			g.fallBack(i)
		}
		g.unfollow = append(g.unfollow, p.follow(g.options, t, func(list []endpoints.Endpoint, err error) {
			if err != nil {
				g.lost(i, t, err)
				return
			}
			g.found(i, list)
		}))
	}
	g.spawn(g.keep)
}

// fallBack has the addresses asked that the Corefile names for the time when a
// Service's endpoints are not known.
func (g *group) fallBack(target int) {
	var list []endpoints.Endpoint
	for _, a := range g.options.fallback {
		list = append(list, endpoints.Endpoint{Addr: a, Tier: endpoints.TierAnybody})
	}
	g.found(target, list)
}

// lost says that a source cannot tell. What it told last stays.
func (g *group) lost(target int, t *target, err error) {
	g.mu.Lock()
	known := len(g.lists[target])
	g.mu.Unlock()
	sourceErrors.WithLabelValues(g.options.from, t.text).Inc()
	if known > 0 {
		log.Warningf("%s: %s: %v; going on with the %d addresses that are known", g.options.from, t.text, err, known)
		return
	}
	log.Errorf("%s: %s: %v; there is nobody to ask", g.options.from, t.text, err)
}

// found takes over what a target's upstreams are now.
func (g *group) found(target int, list []endpoints.Endpoint) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	g.lists[target] = list
	old := *g.current.Load()
	peers := make(map[string]*peer)
	var ups []engine.Upstream
	for i, list := range g.lists {
		t := g.options.targets[i]
		for _, e := range list {
			key := t.key(e.Addr)
			if peers[key] != nil {
				continue
			}
			if g.ownNow(e.Addr) {
				if old[key] == nil {
					log.Warningf("%s: %s names %s, which is this server itself: it is not asked", g.options.from, t.text, e.Addr)
				}
				loopsGauge.WithLabelValues(g.options.from, key).Set(1)
				continue
			}
			if len(ups) == maxUpstreams {
				log.Warningf("%s: more than %d upstreams: the others are not asked", g.options.from, maxUpstreams)
				break
			}
			tier := e.Tier
			if g.options.sequential {
				tier += i * (endpoints.TierAnybody + 1)
			}
			ups = append(ups, engine.Upstream{Key: key, Tier: tier})
			if peers[key] = old[key]; peers[key] == nil {
				peers[key] = g.open(key, t, e.Addr)
			}
		}
	}
	// First the sockets, then whom to ask; and the other way round for those that
	// are gone, which may still answer what they were asked.
	both := make(map[string]*peer, len(old)+len(peers))
	for _, m := range []map[string]*peer{old, peers} {
		for k, p := range m {
			both[k] = p
		}
	}
	g.current.Store(&both)
	g.view.Replace(ups)
	upstreamsGauge.WithLabelValues(g.options.from).Set(float64(len(ups)))
	var gone []string
	for key := range old {
		if peers[key] == nil {
			gone = append(gone, key)
		}
	}
	if len(gone) > 0 {
		g.wg.Go(func() { g.forget(gone) })
	}
	for key := range peers {
		if old[key] == nil {
			g.wg.Go(func() { g.lookForLoop(key) })
		}
	}
	changed()
}

// forget closes what was open to upstreams that are no longer listed, after what
// was asked of them has lived.
func (g *group) forget(keys []string) {
	select {
	case <-time.After(g.options.life()):
	case <-g.done:
		return
	}
	listed := make(map[string]bool)
	for _, k := range g.view.Keys() {
		listed[k] = true
	}
	g.mu.Lock()
	left := make(map[string]*peer)
	var closing []*peer
	for k, p := range *g.current.Load() {
		left[k] = p
	}
	for _, k := range keys {
		if p := left[k]; p != nil && !listed[k] {
			closing = append(closing, p)
			delete(left, k)
			g.forgetMetrics(k)
		}
	}
	g.current.Store(&left)
	g.mu.Unlock()
	for _, p := range closing {
		p.Close()
	}
}

func (g *group) open(key string, t *target, addr netip.AddrPort) *peer {
	mismatches := mismatchesTotal.WithLabelValues(g.options.from, key)
	o := exchange.Options{Expire: g.options.expire, MaxAge: g.options.maxAge, Mismatch: mismatches.Inc}
	if t.tls {
		o.TLS = g.options.tlsFor(t, addr)
	}
	return &peer{Peer: exchange.New(addr, o), addr: addr}
}

// stop ends everything. What was learnt stays with the core.
func (g *group) stop() {
	g.mu.Lock()
	if g.ended {
		g.mu.Unlock()
		return
	}
	g.ended = true
	g.mu.Unlock()
	close(g.done)
	for _, unfollow := range g.unfollow {
		unfollow()
	}
	for _, p := range *g.current.Load() {
		p.Close()
	}
	g.wg.Wait()
	if g.view != nil {
		g.view.Close()
	}
}

// probeQuestion is what upstreams are probed with.
type probeQuestion struct {
	name  string
	qtype uint16
}

func (p probeQuestion) query() *exchange.Query {
	m := new(dns.Msg).SetQuestion(p.name, p.qtype)
	m.SetEdns0(ednsSize, false)
	q, err := exchange.NewQuery(m)
	if err != nil {
		panic(err) // the name was checked when the Corefile was read
	}
	return q
}

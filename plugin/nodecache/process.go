package nodecache

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/clients/tenure"
	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
)

// process is what all server blocks and all Corefiles of this process share.
type process struct {
	store   *store
	newest  atomic.Pointer[processOptions]
	stop    chan struct{}
	stopped chan struct{}

	mu     sync.Mutex
	blocks map[string]uint16 // identities of server blocks
}

// current is the process's state while a Corefile holds it.
var current atomic.Pointer[process]

// holders are the Corefiles that want the state.
var holders = tenure.New(apply)

// processOptions are what one Corefile wants, in whichever of its server blocks.
type processOptions struct {
	bytes        int64
	snapshot     string // a file
	snapshotSize int64

	controller *caddy.Controller
	caches     []*blockCache
	adopted    bool            // the caches have their store
	plan       []wire.Listener // set when it starts

	mu     sync.Mutex
	served []*dnsserver.Server
}

// blockCache is a server block's cache.
type blockCache struct {
	*Cache
	controller *caddy.Controller
}

// identity is what makes a server block the same after a reload: what it listens
// on and for. Its upstreams are no part of it; what was learnt from the old ones
// is as good as its TTL.
func (b *blockCache) identity() string {
	id := strings.Join(b.controller.ServerBlockKeys, " ")
	cfg := dnsserver.GetConfig(b.controller)
	if cfg.ViewName != "" {
		id += " view " + cfg.ViewName
	}
	return id + " on " + strings.Join(cfg.ListenHosts, " ")
}

// apply makes the state what the live Corefiles want, oldest first.
func apply(live []*processOptions) {
	p := current.Load()
	if len(live) == 0 {
		wire.CloseAllBut(nil)
		if p != nil {
			current.Store(nil)
			p.close()
		}
		return
	}
	o := live[len(live)-1]
	limit := int64(0)
	for _, l := range live {
		limit = max(limit, l.size())
	}
	if p == nil {
		p = &process{store: newStore(limit), blocks: make(map[string]uint16), stop: make(chan struct{}), stopped: make(chan struct{})}
		p.adopt(o)
		if o.snapshot != "" {
			p.restore(o.snapshot, max(o.snapshotSize, o.size()))
		}
		go p.keepHouse(time.Second)
		defer current.Store(p)
	}
	p.store.setLimit(limit)
	p.adopt(o)
	p.newest.Store(o)
	p.forgetBlocks(live)
	openWire(o, live)
}

func (o *processOptions) size() int64 {
	if o.bytes == 0 {
		return defaultBytes
	}
	return o.bytes
}

// adopt gives a Corefile's caches the store, and each its entries.
func (p *process) adopt(o *processOptions) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.adopted { // its caches are being asked by now
		return
	}
	o.adopted = true
	taken := make(map[string]int)
	for _, c := range o.caches {
		id := c.identity()
		taken[id]++
		if n := taken[id]; n > 1 {
			id = fmt.Sprintf("%s #%d", id, n)
		}
		n, known := p.blocks[id]
		if !known {
			n = p.freeBlock()
			p.blocks[id] = n
		}
		c.block, c.store = n, p.store
	}
}

// freeBlock is a number that no server block has. The caller holds p.mu.
func (p *process) freeBlock() uint16 {
	used := make(map[uint16]bool, len(p.blocks))
	for _, n := range p.blocks {
		used[n] = true
	}
	n := uint16(0)
	for used[n] {
		n++
	}
	return n
}

// forgetBlocks drops the entries of server blocks that no live Corefile has.
func (p *process) forgetBlocks(live []*processOptions) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := make(map[uint16]bool)
	for _, o := range live {
		for _, c := range o.caches {
			wanted[c.block] = true
		}
	}
	gone := false
	for id, n := range p.blocks {
		if !wanted[n] {
			delete(p.blocks, id)
			gone = true
		}
	}
	if gone {
		p.store.purge(func(e *entry) bool { return !wanted[e.block] })
	}
}

// openWire opens sockets where o can be answered the fast way, and closes those
// that no live Corefile wants.
func openWire(o *processOptions, live []*processOptions) {
	if o.plan == nil {
		o.plan = wire.Plan(o.controller, pluginName, standsFor...)
		for i := range o.plan {
			say(&o.plan[i])
		}
	}
	wanted := make(map[string]bool)
	for _, l := range live {
		for i := range l.plan {
			if fast(&l.plan[i]) {
				wanted[l.plan[i].Addr] = true
			}
		}
	}
	wire.CloseAllBut(wanted)
	for i := range o.plan {
		l := &o.plan[i]
		if !fast(l) {
			continue
		}
		if _, err := wire.Open(l.Addr, l.Sockets); err != nil {
			l.Off = "its sockets cannot be opened"
			log.Warningf("All queries to %s take CoreDNS's way: %v", l.Addr, err)
		}
	}
}

// fast says whether there is anything to answer the fast way at a listener.
func fast(l *wire.Listener) bool {
	return l.Off == "" && slices.ContainsFunc(l.Blocks, func(b wire.Block) bool { return b.Off == "" })
}

// say logs what goes the slow way although it has the plugin.
func say(l *wire.Listener) {
	for _, b := range l.Blocks {
		off := l.Off
		if off == "" {
			off = b.Off
		}
		if off != "" && b.Config.Handler(pluginName) != nil {
			log.Infof("Hits for %s at %s take CoreDNS's way, which costs more: %s", b.Zone, l.Addr, off)
		}
	}
}

// serving is told of every server before it takes its first packet.
func (o *processOptions) serving(addr string, s *dnsserver.Server) *wire.Group {
	for _, c := range o.caches {
		if slices.Contains(clients.Servers(c.controller), s.Addr) {
			c.server.Store(s)
		}
	}
	for i := range o.plan {
		l := &o.plan[i]
		g := wire.Find(addr)
		if l.Addr != addr || !fast(l) || g == nil {
			continue
		}
		g.Use(newEngine(l, o.cacheOf), s)
		o.mu.Lock()
		o.served = append(o.served, s)
		o.mu.Unlock()
		return g
	}
	return nil
}

// cacheOf is the cache of a zone's server block.
func (o *processOptions) cacheOf(cfg *dnsserver.Config) *Cache {
	c, _ := cfg.Handler(pluginName).(*Cache)
	return c
}

// retire waits until o's servers have answered what they have, and their
// successors have taken over.
func retire(o *processOptions) {
	p := current.Load()
	if o == nil || p == nil || p.newest.Load() == o {
		return // nobody comes after
	}
	next := p.newest.Load()
	o.mu.Lock()
	served := slices.Clone(o.served)
	o.mu.Unlock()
	for _, s := range served {
		for i := range next.plan {
			l := &next.plan[i]
			if g := wire.Find(l.Addr); g != nil && l.Server() == s.Addr && fast(l) {
				g.Retire(s)
			}
		}
	}
}

// listeners are the newest Corefile's.
func (p *process) listeners() []wire.Listener {
	if o := p.newest.Load(); o != nil {
		return o.plan
	}
	return nil
}

// keepHouse does what time asks for, until the state is closed.
func (p *process) keepHouse(every time.Duration) {
	defer close(p.stopped)
	tick := time.NewTicker(every)
	defer tick.Stop()
	saved := time.Now()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		p.store.sweep(clients.Now().Mono, 300)
		if time.Since(saved) >= defaultSnapshotIn {
			saved = time.Now()
			p.save()
		}
	}
}

func (p *process) close() {
	close(p.stop)
	<-p.stopped
	p.save()
}

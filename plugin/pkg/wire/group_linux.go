package wire

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	clog "github.com/coredns/coredns/plugin/pkg/log"
)

var log = clog.NewWithPlugin("nodecache")

const (
	// strayLimit is how many queries a second at CoreDNS's own socket say that the
	// steering is gone: others joined or left the group. A few come with every
	// change of it.
	strayLimit = 20
	// drainFor is how long a closing group answers what was queued.
	drainFor = time.Second
	// retireFor is how long a server that was replaced may take for the queries it
	// still has; CoreDNS gives its own as long.
	retireFor = 5 * time.Second
)

// Group is the sockets at one address, beside CoreDNS's own.
type Group struct {
	addr     string
	sockets  []*socket
	streams  *streams
	target   atomic.Pointer[target]
	pool     *pool
	steering *steering
	strays   Strays
	unsent   atomic.Uint64
	overflow atomic.Uint64
	steered  atomic.Bool

	stop    chan struct{}
	running sync.WaitGroup
}

// target is who answers.
type target struct {
	engine   Engine
	server   *dnsserver.Server
	inflight atomic.Int64 // queries that the server has from us
}

func open(addr string, sockets int, began int64) (*Group, error) {
	g := &Group{addr: addr, pool: newPool(), stop: make(chan struct{})}
	var err error
	if g.streams, err = listenStreams(g); err != nil {
		return nil, err
	}
	for range sockets {
		s, err := listen(addr)
		if err != nil {
			g.closeSockets()
			return nil, err
		}
		g.sockets = append(g.sockets, s)
	}
	if n := g.sockets[0].room(); n < socketBuffer {
		log.Infof("The receive buffers at %s hold %d KiB, not %d: bursts may be lost. Raise net.core.rmem_max, or give the process CAP_NET_ADMIN", addr, n>>10, socketBuffer>>10)
	}
	g.steering = newSteering(addr, g.sockets, began)
	return g, nil
}

// Addr is the group's address.
func (g *Group) Addr() string { return g.addr }

// Strays counts queries that came in at CoreDNS's own socket instead.
func (g *Group) Strays() *Strays { return &g.strays }

// Use makes e answer from now on, and s what e leaves. The first call starts the
// sockets.
func (g *Group) Use(e Engine, s *dnsserver.Server) {
	if g.target.Swap(&target{engine: e, server: s}) != nil {
		return
	}
	for i, s := range g.sockets {
		w := newWorker(g, i, s)
		g.running.Go(w.run)
	}
	g.running.Go(g.streams.accept)
	g.running.Go(g.watch)
}

// Used says whether Use was called.
func (g *Group) Used() bool { return g.target.Load() != nil }

// Serves says whether s is the server that gets what the engine leaves.
func (g *Group) Serves(s *dnsserver.Server) bool {
	t := g.target.Load()
	return t != nil && t.server == s
}

// Retire waits, for a while, until a server that stops has been replaced and has
// answered what it had from the group. CoreDNS waits so for its own queries.
func (g *Group) Retire(s *dnsserver.Server) {
	until := time.Now().Add(retireFor)
	t := g.target.Load()
	if t == nil || t.server != s {
		return
	}
	for time.Now().Before(until) && (g.target.Load() == t || t.inflight.Load() > 0) {
		time.Sleep(time.Millisecond)
	}
}

// watch keeps packets and connections steered to our sockets.
func (g *Group) watch() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var packets, connections complaint
	var taking atomic.Bool // which takes seconds where others share the address
	last := time.Time{}
	for {
		if held := heldBack(); held != nil {
			select {
			case <-g.stop:
				return
			case <-held:
			}
		}
		now := time.Now()
		strays := g.strays.Taken()
		again := g.steering.shared.Load() && now.Sub(last) >= probeAgain
		changed := !g.steered.Load() || strays >= strayLimit || again
		yields := g.steering.yields(now)
		if changed && !yields {
			err := g.steering.find()
			last = now
			g.steered.Store(err == nil)
			packets.about(err, "Not all packets to %s take the fast way: %v. They are answered all the same; trying again every second", g.addr)
		}
		if !yields && (changed || !g.streams.listener.Taken()) && taking.CompareAndSwap(false, true) {
			g.running.Go(func() {
				defer taking.Store(false)
				if err := g.streams.listener.Take(g.stop); !errors.Is(err, net.ErrClosed) {
					connections.about(err, "Queries of one TCP connection to %s may be answered in their order: %v. Trying again", g.addr)
				}
			})
		}
		select {
		case <-g.stop:
			return
		case <-tick.C:
		}
	}
}

// complaint is a warning that is given once for as long as it holds.
type complaint bool

func (c *complaint) about(err error, format, addr string) {
	if err != nil && !bool(*c) {
		log.Warningf(format, addr, err)
	}
	*c = err != nil
}

// close ends the group: its sockets get nothing new, what is queued is answered,
// and CoreDNS's own socket gets the rest.
func (g *Group) close() {
	close(g.stop)
	if g.target.Load() != nil {
		now := time.Now()
		g.streams.leave(now, !g.steering.yields(now))
		if g.steered.Load() { // else the program is another process's
			g.steering.detach(now)
		}
		for _, s := range g.sockets {
			s.leave()
		}
		for until := time.Now().Add(drainFor); time.Now().Before(until) && g.busy(); {
			time.Sleep(time.Millisecond)
		}
	}
	g.closeSockets()
	close(g.pool.closed)
	g.running.Wait()
}

func (g *Group) closeSockets() {
	for _, s := range g.sockets {
		_ = s.conn.Close()
	}
	g.streams.close()
}

// busy says whether there is anything left to answer.
func (g *Group) busy() bool {
	if t := g.target.Load(); t.inflight.Load() > 0 || g.streams.busy(time.Now()) {
		return true
	}
	for _, s := range g.sockets {
		if s.queued() {
			return true
		}
	}
	return false
}

// Stats are the group's.
func (g *Group) Stats() Stats {
	s := Stats{Sockets: len(g.sockets), Streams: g.streams.count(), Accepted: g.streams.accepted.Load(), Unsent: g.unsent.Load(), Overflow: g.overflow.Load()}
	for _, k := range g.sockets {
		s.Dropped += k.dropped.Load()
	}
	if t := g.target.Load(); t != nil {
		s.Waiting = int(t.inflight.Load())
	}
	return s
}

// Steered says whether packets are known to reach the group's own sockets.
func (g *Group) Steered() bool { return g.steered.Load() || g.steering.yields(time.Now()) }

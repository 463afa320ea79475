// Package exchange asks one DNS server: the sockets of hedge.
//
// A Peer is asked over UDP, with a random ID from a random one of changing source
// ports (RFC 5452, sockets.go), or over connections that stay, TCP or TLS (RFC
// 7766, RFC 7858), on which questions do not wait for each
// other's answers. Only what comes from the server's address and has the ID and
// the question of what was asked is an answer; all else is ignored, and counted.
//
// Nothing is decided here: not whom to ask, nor how long to wait, nor whether an
// answer is a good one.
package exchange

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a Peer.
type Options struct {
	// TLS is set for a server that is asked over TLS.
	TLS *tls.Config
	// Expire closes connections that were not used for so long.
	Expire time.Duration
	// MaxAge is how long a connection is used: behind a balancer, a connection that
	// stays would be one server's for ever.
	MaxAge time.Duration
	// Mismatch is called for everything that came and was no answer.
	Mismatch func()
}

// Peer is one DNS server.
type Peer struct {
	addr    netip.AddrPort
	options Options
	closed  atomic.Bool
	wg      sync.WaitGroup // readers of connections
	sockets sockets        // UDP

	mu      sync.Mutex
	streams []*stream        // TCP or TLS, to ask on
	all     map[*stream]bool // those as well that are only waited for
}

// New is a peer that nothing is open to yet.
func New(addr netip.AddrPort, o Options) *Peer {
	if o.Mismatch == nil {
		o.Mismatch = func() {}
	}
	return &Peer{addr: addr, options: o, all: make(map[*stream]bool)}
}

// ErrClosed is that the peer was given up.
var ErrClosed = errors.New("no longer an upstream")

// Retire has all connections that are open closed as soon as nothing is waited
// for on them. The next question opens a new one.
func (p *Peer) Retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		s.retire()
	}
	p.streams = nil
}

// Close closes everything. Whoever waits is told ErrClosed, over UDP within
// patience.
func (p *Peer) Close() {
	p.closed.Store(true)
	p.sockets.close()
	p.mu.Lock()
	all := make([]*stream, 0, len(p.all))
	for s := range p.all {
		all = append(all, s)
	}
	p.streams = nil
	p.mu.Unlock()
	for _, s := range all {
		s.end(ErrClosed)
	}
	p.wg.Wait()
}

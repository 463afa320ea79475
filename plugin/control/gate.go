package control

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxHandshakes is how many connections may be on their way in. They are
	// strangers still; honest ones take milliseconds. Each can take some 20 kB.
	maxHandshakes   = 128
	handshakeWithin = 5 * time.Second
	// stayAtLeast is how long everybody may stay, crowd or not: a hundred times
	// what an honest handshake takes. It also bounds how fast a crowd turns over,
	// and with it the work that it makes; who comes then waits in the kernel.
	stayAtLeast = 50 * time.Millisecond
	// maxConnections of callers that are known, in all and for each. A fleet has
	// two or three callers; each keeps a few connections.
	maxConnections          = 128
	maxConnectionsPerCaller = 32
)

// gate lets callers in: it is the listener behind the HTTP server and hands it
// only connections whose caller is known.
//
// Strangers cannot keep it shut: when maxHandshakes are on their way, the
// address that has most of them loses one, the oldest of those that never said a
// word if there are such, once it has had time enough. So a flood throws out
// itself, and who speaks TLS at once gets in even from the flood's own address.
type gate struct {
	ln    net.Listener
	tls   *tls.Config // nil on a unix socket
	in    chan net.Conn
	conns *slots
	done  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup

	mu      sync.Mutex
	waiting []*stranger // oldest first
}

// stranger is a connection whose caller is not known yet.
type stranger struct {
	net.Conn
	from    string // address without port
	came    time.Time
	spoke   atomic.Bool
	evicted bool // gate.mu
}

// Read notes that the other side said something.
func (s *stranger) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 && !s.spoke.Load() {
		s.spoke.Store(true)
	}
	return n, err
}

func newGate(ln net.Listener) *gate {
	return &gate{
		ln:    ln,
		in:    make(chan net.Conn),
		conns: newSlots(maxConnections, maxConnectionsPerCaller),
		done:  make(chan struct{}),
	}
}

// Accept is the next connection whose caller is known.
func (g *gate) Accept() (net.Conn, error) {
	select {
	case c := <-g.in:
		return c, nil
	case <-g.done:
		return nil, net.ErrClosed
	}
}

// Addr is where it listens.
func (g *gate) Addr() net.Addr { return g.ln.Addr() }

// Close stops letting callers in.
func (g *gate) Close() error { g.stop(); return nil }

// stop closes the listener and cuts off all strangers.
func (g *gate) stop() {
	g.once.Do(func() {
		close(g.done)
		_ = g.ln.Close()
		g.mu.Lock()
		for _, c := range g.waiting {
			_ = c.Close()
		}
		g.mu.Unlock()
	})
	g.wg.Wait()
}

// run accepts connections until it is stopped.
func (g *gate) run() {
	for {
		c, err := g.ln.Accept()
		if err != nil {
			select {
			case <-g.done:
				return
			case <-time.After(50 * time.Millisecond): // out of file descriptors, most likely
				continue
			}
		}
		if s := g.admit(c); s != nil {
			go func() {
				defer g.wg.Done()
				g.identify(s)
			}()
		}
	}
}

// admit takes c as a stranger, and throws one out if there are too many.
func (g *gate) admit(c net.Conn) *stranger {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		select {
		case <-g.done:
			_ = c.Close()
			return nil
		default:
		}
		if len(g.waiting) < maxHandshakes {
			break
		}
		victim := g.victim()
		if early := stayAtLeast - time.Since(victim.came); early > 0 {
			g.mu.Unlock()
			time.Sleep(min(early, time.Millisecond)) // others may leave before that
			g.mu.Lock()
			continue
		}
		victim.evicted = true
		_ = victim.Close()
		g.remove(victim)
	}
	s := &stranger{Conn: c, from: hostOf(c.RemoteAddr()), came: time.Now()}
	g.waiting = append(g.waiting, s)
	g.wg.Add(1)
	return s
}

// victim is who is thrown out next: of the address that has most strangers, the
// oldest that never said a word, or the oldest. g.mu is held.
func (g *gate) victim() *stranger {
	count := make(map[string]int, len(g.waiting))
	most := 0
	for _, s := range g.waiting {
		count[s.from]++
		most = max(most, count[s.from])
	}
	var oldest *stranger
	for _, s := range g.waiting {
		if count[s.from] != most {
			continue
		}
		if !s.spoke.Load() {
			return s
		}
		if oldest == nil {
			oldest = s
		}
	}
	return oldest
}

// remove takes s off the list. g.mu is held.
func (g *gate) remove(s *stranger) {
	if i := slices.Index(g.waiting, s); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
}

// leave takes s off the list and says whether it was thrown out.
func (g *gate) leave(s *stranger) (evicted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(s)
	return s.evicted
}

// identify finds out who calls, and hands the connection on.
func (g *gate) identify(s *stranger) {
	conn, err := g.greet(s)
	evicted := g.leave(s)
	if err != nil {
		_ = s.Close()
		g.refused(s, err, evicted)
		return
	}
	handshakes.WithLabelValues(handshakeOK).Inc()
	select {
	case g.in <- conn:
	case <-g.done:
		_ = conn.Close()
	}
}

// greet does the handshake, and makes the connection one of its caller's.
func (g *gate) greet(s *stranger) (net.Conn, error) {
	known := &known{Conn: s}
	if g.tls == nil {
		uid, err := peerUID(s.Conn)
		if err != nil {
			return nil, err
		}
		known.name = uidName(uid)
		return known, g.enter(known)
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeWithin)
	defer cancel()
	conn := tls.Server(known, g.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if err := known.identify(conn.ConnectionState()); err != nil {
		return nil, err
	}
	return conn, g.enter(known)
}

// errBusy is that a caller has as many connections as it may have.
var errBusy = errors.New("as many connections as there may be are open: close some")

// enter counts k until it is closed.
func (g *gate) enter(k *known) error {
	if !g.conns.take(k.name) {
		return errBusy
	}
	connections.Inc()
	k.left = func() { g.conns.give(k.name); connections.Dec() }
	return nil
}

// refused counts and logs a connection that was not let in. Who went away, or
// never said a word of TLS, is counted and not logged: scanners and TCP checks do.
func (g *gate) refused(s *stranger, err error, evicted bool) {
	var timeout net.Error
	switch {
	case evicted:
		handshakes.WithLabelValues(handshakeEvicted).Inc()
		return
	case errors.Is(err, errBusy):
		handshakes.WithLabelValues(handshakeBusy).Inc()
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		handshakes.WithLabelValues(handshakeTimeout).Inc()
		return
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.As(err, new(*net.OpError)) && !errors.As(err, new(tls.AlertError)):
		handshakes.WithLabelValues(handshakeAborted).Inc()
		return
	default:
		handshakes.WithLabelValues(handshakeRefused).Inc()
	}
	refusals.WithLabelValues(refusedConnection).Inc()
	auditConnection(s.RemoteAddr(), err)
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

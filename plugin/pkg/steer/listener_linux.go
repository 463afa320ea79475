package steer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxListeners is how many listeners a group may have for one to be found: two or
// more of each process that shares the address.
const maxListeners = 32

// probeWaits are how long it may take until a connection of our own is accepted,
// in the first search and in those after it. It goes over loopback, but the process
// may be busy, and each index that is not ours costs as much.
var probeWaits = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second}

// proofs are how many connections have to come to the listener for its index to be
// right: one beyond the group's end leads to any listener, ours too.
const proofs = 8

// Listener is a TCP listener that shares its address with others.
//
// The kernel chooses a listener for a connection when its first packet comes, and
// the program sees that packet from its IP header on (SKF_NET_OFF). The index is
// found by connections of our own, one for each index, from the listener's address
// and a port that the program knows; all others are steered as before meanwhile. Who else accepts such a
// connection finds it closed, with nothing in it.
type Listener struct {
	*net.TCPListener
	addr string
	raw  syscall.RawConn

	mu    sync.Mutex   // one at a time steers
	index atomic.Int32 // of the listener; -1: not known

	port  atomic.Uint32 // that a connection of our own comes from; 0: there is none
	found chan struct{}
}

// errNotFound says that no index leads to the listener.
var errNotFound = errors.New("a connection of our own did not come back to the listener")

// Listen listens at a TCP address, HOST:PORT.
func Listen(addr string) (*Listener, error) {
	lc := Sharing()
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	t, ok := l.(*net.TCPListener)
	if !ok {
		_ = l.Close()
		return nil, fmt.Errorf("%s is no TCP address", addr)
	}
	raw, err := t.SyscallConn()
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	out := &Listener{TCPListener: t, addr: t.Addr().String(), raw: raw, found: make(chan struct{}, 1)}
	out.index.Store(-1)
	return out, nil
}

// Accept is the next connection of somebody else's.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		if !l.own(c) {
			return c, nil
		}
		_ = c.Close()
	}
}

// Taken says whether connections were steered to the listener, by the last Take.
func (l *Listener) Taken() bool { return l.index.Load() >= 0 }

// Take has the kernel give the listener all new connections. Accept must be running.
// It is to be called again when somebody joined the address or left it, and gives up
// at stop, which may be nil.
func (l *Listener) Take(stop <-chan struct{}) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, wait := range probeWaits {
		k, err := l.search(wait, stop)
		if err != nil {
			return err
		}
		if k >= 0 {
			l.index.Store(int32(k)) // #nosec G115 -- below maxListeners
			return l.attach(program(0, 0, k))
		}
	}
	l.index.Store(-1)
	return errNotFound
}

// search finds the listener's index; -1: it did not. l.mu is held.
func (l *Listener) search(wait time.Duration, stop <-chan struct{}) (int, error) {
	for k := range maxListeners {
		ours := 0
		for ours < proofs {
			select {
			case <-stop:
				return -1, net.ErrClosed
			default:
			}
			came, err := l.probe(k, wait)
			if err != nil {
				return -1, err
			}
			if !came {
				break
			}
			ours++
		}
		switch {
		case ours == proofs:
			return k, nil
		case ours > 0:
			// It was ours and then was not: the group's end is behind us, or it changed,
			// or we were too slow.
			return -1, nil
		}
	}
	return -1, nil
}

// probe says whether a connection that is steered to index k comes to us.
func (l *Listener) probe(k int, wait time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	to, err := netip.ParseAddrPort(Reach(l.addr))
	if err != nil {
		return false, err
	}
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return Control(c, func(fd int) error {
			port, err := bindAnyPort(fd, to.Addr())
			if err != nil {
				return err
			}
			select {
			case <-l.found: // late, of the last time
			default:
			}
			l.port.Store(uint32(port))
			return l.attach(program(port, k, int(l.index.Load())))
		})
	}}
	defer l.port.Store(0)
	conn, err := d.DialContext(ctx, "tcp", to.String())
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cannot connect to %s to see who answers: %w", l.addr, err)
	}
	defer conn.Close()
	select {
	case <-l.found:
		return true, nil
	case <-ctx.Done():
		return false, nil
	}
}

// own says whether a connection is our own, from this machine to see who gets it.
func (l *Listener) own(conn *net.TCPConn) bool {
	port := l.port.Load()
	if port == 0 {
		return false
	}
	from, ok := conn.RemoteAddr().(*net.TCPAddr)
	to, ok2 := conn.LocalAddr().(*net.TCPAddr)
	if !ok || !ok2 || uint32(from.Port) != port || !from.IP.Equal(to.IP) { // #nosec G115 -- a port
		return false
	}
	select {
	case l.found <- struct{}{}:
	default:
	}
	return true
}

// Leave has the kernel give new connections to somebody else, if there is anybody.
func (l *Listener) Leave() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.index.Load() < 0 {
		return nil
	}
	other := 0 // beyond the group's end it leaves the choice to the kernel
	if l.index.Load() == 0 {
		other = 1
	}
	return l.attach(program(0, 0, other))
}

// program gives connections from a port, unless that is 0, to index k, and
// all others to the index that is theirs; if that is negative, to whom the kernel
// chooses.
func program(port uint16, k, index int) []unix.SockFilter {
	const (
		fromIP   = 0xfff00000 // SKF_NET_OFF: an offset from the IP header
		loadHalf = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
		equal    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret      = unix.BPF_RET | unix.BPF_K
	)
	last := unix.SockFilter{Code: ret, K: Nobody}
	if index >= 0 {
		last.K = uint32(index) // #nosec G115 -- below maxListeners
	}
	if port == 0 {
		return []unix.SockFilter{last}
	}
	// The first packets of our own connections have no options in the IP header.
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: fromIP},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf0},
		{Code: equal, K: 0x40, Jf: 2},
		{Code: loadHalf, K: fromIP + 20}, // behind an IPv4 header
		{Code: unix.BPF_JMP | unix.BPF_JA, K: 1},
		{Code: loadHalf, K: fromIP + 40}, // behind an IPv6 header
		{Code: equal, K: uint32(port), Jf: 1},
		{Code: ret, K: uint32(k)}, // #nosec G115 -- below maxListeners
		last,
	}
}

// attach makes p the group's program.
func (l *Listener) attach(p []unix.SockFilter) error {
	if err := Control(l.raw, func(fd int) error { return Attach(fd, p) }); err != nil {
		return fmt.Errorf("cannot steer connections to %s: %w", l.addr, err)
	}
	return nil
}

// bindAnyPort binds a socket to an address and a port of the kernel's choice.
func bindAnyPort(fd int, to netip.Addr) (uint16, error) {
	var at unix.Sockaddr
	if to.Is4() {
		at = &unix.SockaddrInet4{Addr: to.As4()}
	} else {
		at6 := &unix.SockaddrInet6{Addr: to.As16()}
		if i, err := net.InterfaceByName(to.Zone()); err == nil { // a link-local address
			at6.ZoneId = uint32(i.Index) // #nosec G115 -- the kernel's own
		}
		at = at6
	}
	if err := unix.Bind(fd, at); err != nil {
		return 0, err
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	switch b := bound.(type) {
	case *unix.SockaddrInet4:
		return uint16(b.Port), nil // #nosec G115 -- a port
	case *unix.SockaddrInet6:
		return uint16(b.Port), nil // #nosec G115 -- a port
	}
	return 0, errors.ErrUnsupported
}

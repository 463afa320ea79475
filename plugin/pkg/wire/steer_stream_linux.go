package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// The kernel chooses a listener for a connection when its first packet comes, and
// the program on the reuseport group sees that packet from its IP header on
// (SKF_NET_OFF). Here too the program has to name our listener by its index. It is
// found by connections of our own, one for each index, from a port that the
// program knows: all others are steered as before meanwhile. Who accepts such a
// connection without being asked to finds it closed, with no query in it.

// maxListeners is how many listeners a group may have for ours to be found: two
// or more of each process that shares the address.
const maxListeners = 32

// streamSteering is that of one listener.
type streamSteering struct {
	addr     string
	listener syscall.RawConn

	mu    sync.Mutex
	index int // of our listener; -1: not known

	port  atomic.Uint32 // that a connection of ours comes from; 0: there is none
	found chan struct{}
}

func newStreamSteering(addr string, l *net.TCPListener) (*streamSteering, error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &streamSteering{addr: addr, listener: raw, index: -1, found: make(chan struct{}, 1)}, nil
}

// errNotFound: no index leads to our listener.
var errNotFound = errors.New("our listener did not get a connection of our own")

// known says whether connections are steered to our listener.
func (s *streamSteering) known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index >= 0
}

// find finds our listener's index, and steers to it. It gives up at stop.
func (s *streamSteering) find(stop <-chan struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// An index beyond the group's end leads to any listener, ours too: twice in a
	// row is taken for a proof, and the lower ones come first.
	for k := range maxListeners {
		found := false
		for range 2 {
			select {
			case <-stop:
				return nil
			default:
			}
			ours, err := s.probe(k)
			if err != nil {
				return err
			}
			if found = ours; !ours {
				break
			}
		}
		if found {
			s.index = k
			return s.attach(streamProgram(0, 0, k))
		}
	}
	s.index = -1
	return errNotFound
}

// probe says whether a connection that is steered to index k comes to us.
func (s *streamSteering) probe(k int) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return control(c, func(fd int) error {
			port, err := bindAnyPort(fd)
			if err != nil {
				return err
			}
			select {
			case <-s.found: // late, of the last time
			default:
			}
			s.port.Store(uint32(port))
			return s.attach(streamProgram(port, k, s.index))
		})
	}}
	conn, err := d.DialContext(ctx, "tcp", probeTarget(s.addr))
	if err != nil {
		return false, fmt.Errorf("cannot connect to %s to see who answers: %w", s.addr, err)
	}
	defer conn.Close()
	defer s.port.Store(0)
	select {
	case <-s.found:
		return true, nil
	case <-ctx.Done():
		return false, nil
	}
}

// seen says whether a connection is our own, from this machine to see who gets it.
func (s *streamSteering) seen(conn *net.TCPConn) bool {
	port := s.port.Load()
	if port == 0 {
		return false
	}
	from, ok := conn.RemoteAddr().(*net.TCPAddr)
	to, ok2 := conn.LocalAddr().(*net.TCPAddr)
	if !ok || !ok2 || uint32(from.Port) != port || !from.IP.Equal(to.IP) { // #nosec G115 -- a port
		return false
	}
	select {
	case s.found <- struct{}{}:
	default:
	}
	return true
}

// away steers new connections to somebody else, if there is anybody.
func (s *streamSteering) away() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index < 0 {
		return
	}
	other := 0 // beyond the group's end it leaves the choice to the kernel
	if s.index == 0 {
		other = 1
	}
	if err := s.attach(streamProgram(0, 0, other)); err != nil {
		log.Debugf("%v", err)
	}
}

// streamProgram gives connections from a port, unless that is 0, to index k, and
// all others to the index that is theirs; if that is negative, to whom the kernel
// chooses.
func streamProgram(port uint16, k, index int) []unix.SockFilter {
	const (
		fromIP   = 0xfff00000 // SKF_NET_OFF: an offset from the IP header
		loadHalf = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
		equal    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret      = unix.BPF_RET | unix.BPF_K
		nobody   = 1<<32 - 1 // no socket has this index: the kernel's own choice
	)
	last := unix.SockFilter{Code: ret, K: nobody}
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
func (s *streamSteering) attach(p []unix.SockFilter) error {
	if err := control(s.listener, func(fd int) error { return attach(fd, p) }); err != nil {
		return fmt.Errorf("cannot steer connections to %s: %w", s.addr, err)
	}
	return nil
}

// bindAnyPort binds a socket to a port of the kernel's choice.
func bindAnyPort(fd int) (uint16, error) {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return 0, err
	}
	var wild unix.Sockaddr = &unix.SockaddrInet4{}
	if domain == unix.AF_INET6 {
		wild = &unix.SockaddrInet6{}
	}
	if err := unix.Bind(fd, wild); err != nil {
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

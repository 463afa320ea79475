package wire

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"firebreakdns.io/firebreak/plugin/pkg/steer"
)

// handshakeFor is how long a group that ends still takes connections: those that
// the kernel had begun to set up for it.
const handshakeFor = 100 * time.Millisecond

// maxStreams is how many connections the process has open at most, some 9 KiB each.
const maxStreams = 4096

// mostStreams is how many it may have: half of its descriptors are for asking
// upstreams, or who opens enough connections would silence the cache for all.
func mostStreams() int64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return maxStreams
	}
	return int64(min(l.Cur/2, maxStreams)) // #nosec G115 -- bounded
}

// openStreams is how many there are, of all groups.
var openStreams atomic.Int64

// streams are a group's TCP side: a listener beside CoreDNS's, which takes a
// connection's next query only when it has answered the last.
type streams struct {
	*Group
	listener *steer.Listener
	pool     *pool

	accepted atomic.Uint64

	fullSaid time.Time // when it was last said that there are too many; of accept

	ending atomic.Int64 // since when, Unix ns; 0: not
	mu     sync.Mutex
	open   map[*stream]struct{}
}

func listenStreams(g *Group) (*streams, error) {
	l, err := steer.Listen(g.addr)
	if err != nil {
		return nil, err
	}
	return &streams{Group: g, listener: l, pool: newPool(), open: make(map[*stream]struct{})}, nil
}

// accept takes connections until the listener is closed.
func (s *streams) accept() {
	pause := time.Duration(0)
	for {
		conn, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no descriptors left, most likely: some will be again
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			log.Warningf("Cannot take a TCP connection at %s: %v. Trying again in %v", s.addr, err, pause)
			time.Sleep(pause)
			continue
		}
		pause = 0
		s.accepted.Add(1)
		if openStreams.Load() >= mostStreams() && !s.makeRoom() {
			_ = conn.Close()
			continue
		}
		openStreams.Add(1)
		c := newStream(s, conn.(*net.TCPConn)) //nolint:errcheck // a TCP listener accepts nothing else
		s.mu.Lock()
		s.open[c] = struct{}{}
		s.mu.Unlock()
		s.running.Go(func() {
			c.serve()
			s.mu.Lock()
			delete(s.open, c)
			s.mu.Unlock()
			openStreams.Add(-1)
		})
	}
}

// makeRoom ends a connection on which nothing is being answered, and says whether
// there was one. It takes any: where there are too many, most are of whoever opened
// them.
func (s *streams) makeRoom() bool {
	now := time.Now()
	if now.Sub(s.fullSaid) >= time.Minute {
		s.fullSaid = now
		log.Warningf("More than %d TCP connections: idle ones at %s are ended to take new ones", mostStreams(), s.addr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	looks := 64 // at most: it is done for each connection that comes
	for c := range s.open {
		if len(c.slots) == 0 {
			delete(s.open, c)
			_ = c.Close()
			return true
		}
		if looks--; looks == 0 {
			break
		}
	}
	return false
}

// count is how many connections are open.
func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// setDeadline bounds a connection's next read. While the group ends, connections
// that are idle are let go.
func (s *streams) setDeadline(conn *net.TCPConn, patience time.Duration) {
	_ = conn.SetReadDeadline(time.Now().Add(patience)) // fails only if it is closed
	if s.ending.Load() != 0 && patience > lingerFor {
		_ = conn.SetReadDeadline(time.Now().Add(lingerFor))
	}
}

// leave lets go of connections that are idle. With steer, it makes the kernel give
// new ones to somebody else, if there is anybody.
func (s *streams) leave(now time.Time, steer bool) {
	s.ending.Store(now.UnixNano())
	if steer {
		if err := s.listener.Leave(); err != nil {
			log.Debugf("%v", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.conn.SetReadDeadline(now.Add(lingerFor))
	}
}

// busy says whether a connection is open or may still come.
func (s *streams) busy(now time.Time) bool {
	return now.UnixNano() < s.ending.Load()+int64(handshakeFor) || s.count() > 0
}

// close ends the listener and what is open.
func (s *streams) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	close(s.pool.closed)
}

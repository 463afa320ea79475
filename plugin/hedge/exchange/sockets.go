package exchange

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// A socket costs more to open than a question to ask, so a few are used again.
// But a port that is known is half of what a forger has to guess (RFC 5452): each
// is used for some questions and two seconds, and which of at least eight is used
// next is left to chance. Who asks seldom gets a new one for every question.
const (
	socketUses  = 64
	socketAge   = 2 * time.Second
	leastToPick = 8
	mostIdle    = 256
)

// socket is a UDP socket that is connected to the server: the system takes
// datagrams from the server's address alone, and tells at once where nobody
// listens.
type socket struct {
	conn *net.UDPConn
	born time.Time
	uses int
}

// sockets are those that are idle.
type sockets struct {
	mu     sync.Mutex
	idle   []*socket // oldest first, but for chance
	sweep  *time.Timer
	closed bool
}

// take is a socket for one question alone.
func (k *sockets) take(p *Peer) (*socket, error) {
	now := time.Now()
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil, ErrClosed
	}
	for len(k.idle) >= leastToPick {
		i, last := rand.IntN(len(k.idle)), len(k.idle)-1
		s := k.idle[i]
		k.idle[i], k.idle[last] = k.idle[last], nil
		k.idle = k.idle[:last]
		if now.Sub(s.born) < socketAge {
			k.mu.Unlock()
			s.uses++
			return s, nil
		}
		_ = s.conn.Close()
	}
	k.mu.Unlock()
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(p.addr))
	if err != nil {
		return nil, err
	}
	return &socket{conn: conn, born: now, uses: 1}, nil
}

// give gives a socket back on which nothing more is to come; false: it is to be
// closed.
func (k *sockets) give(s *socket) bool {
	if s.uses >= socketUses {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || len(k.idle) >= mostIdle {
		return false
	}
	k.idle = append(k.idle, s)
	if k.sweep == nil {
		k.sweep = time.AfterFunc(socketAge, k.clean)
	}
	return true
}

// clean closes what is too old, and comes again as long as there is anything.
func (k *sockets) clean() {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	kept := k.idle[:0]
	for _, s := range k.idle {
		if now.Sub(s.born) < socketAge {
			kept = append(kept, s)
		} else {
			_ = s.conn.Close()
		}
	}
	clear(k.idle[len(kept):])
	k.idle = kept
	if len(kept) > 0 {
		k.sweep.Reset(socketAge)
	} else {
		k.sweep = nil
	}
}

func (k *sockets) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, s := range k.idle {
		_ = s.conn.Close()
	}
	k.idle = nil
	if k.sweep != nil {
		k.sweep.Stop()
	}
}

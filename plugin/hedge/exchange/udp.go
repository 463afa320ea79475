package exchange

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// maxDatagram is the longest that is read. We say that we take 1232 bytes.
const maxDatagram = 4096

// patience is how often somebody who waits for a datagram looks whether anybody
// still wants it.
const patience = 250 * time.Millisecond

var buffers = sync.Pool{New: func() any { return new([maxDatagram]byte) }}

// Datagram is a question that was sent over UDP.
type Datagram struct {
	peer   *Peer
	query  *Query
	socket *socket
	id     uint16
	clean  bool // answered: nothing more is to come
}

// Send asks over UDP, from a socket that is its own while it waits.
func (p *Peer) Send(q *Query) (*Datagram, error) {
	s, err := p.sockets.take(p)
	if err != nil {
		return nil, err
	}
	d := &Datagram{peer: p, query: q, socket: s, id: randomID()}
	buf := buffers.Get().(*[maxDatagram]byte)
	defer buffers.Put(buf)
	if _, err := s.conn.Write(q.appendTo(buf[:0], d.id)); err != nil {
		_ = s.conn.Close()
		return nil, err
	}
	return d, nil
}

// ErrTimeout is that no answer came in time.
var ErrTimeout = errors.New("no answer")

// Receive waits for the answer until then, and gives it to use, which must not
// keep it. After ErrTimeout it can be called again; Close when done.
func (d *Datagram) Receive(until time.Time, use func(answer []byte)) error {
	buf := buffers.Get().(*[maxDatagram]byte)
	defer buffers.Put(buf)
	for {
		slice := until
		if soon := time.Now().Add(patience); soon.Before(slice) {
			slice = soon
		}
		if err := d.socket.conn.SetReadDeadline(slice); err != nil {
			return err
		}
		n, err := d.socket.conn.Read(buf[:])
		if errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(until) {
			// When this process got no processor for a while, the answer may be there
			// and nobody late but us: a deadline that has passed hides it.
			if waiting := d.peek(buf[:]); waiting > 0 {
				n, err = waiting, nil
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if d.peer.closed.Load() {
				return ErrClosed
			}
			if !time.Now().Before(until) {
				return ErrTimeout
			}
			continue
		case err != nil:
			return err
		}
		if id, ok := idOf(buf[:n]); !ok || id != d.id || !d.query.answeredBy(buf[:n]) {
			// It may be a forgery, and another may come.
			d.peer.options.Mismatch()
			continue
		}
		d.clean = true
		use(buf[:n])
		return nil
	}
}

// peek reads what is there, without waiting; 0: nothing.
func (d *Datagram) peek(buf []byte) (n int) {
	raw, err := d.socket.conn.SyscallConn()
	if err != nil || d.socket.conn.SetReadDeadline(time.Time{}) != nil {
		return 0
	}
	_ = raw.Read(func(fd uintptr) bool { // an error is nothing to read
		n, _, err = syscall.Recvfrom(int(fd), buf, syscall.MSG_DONTWAIT)
		return true
	})
	if err != nil {
		return 0
	}
	return n
}

// Close gives the socket up, or back.
func (d *Datagram) Close() {
	if !d.clean || !d.peer.sockets.give(d.socket) {
		_ = d.socket.conn.Close()
	}
}

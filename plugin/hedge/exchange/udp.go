package exchange

import (
	"errors"
	"net"
	"os"
	"sync"
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
	peer  *Peer
	query *Query
	conn  *net.UDPConn
	id    uint16
}

// Send asks over UDP, from a socket of its own.
func (p *Peer) Send(q *Query) (*Datagram, error) {
	if p.closed.Load() {
		return nil, ErrClosed
	}
	// Connected: the system takes datagrams from the server's address alone, and
	// tells at once of one that nobody listens at.
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(p.addr))
	if err != nil {
		return nil, err
	}
	d := &Datagram{peer: p, query: q, conn: conn, id: randomID()}
	buf := buffers.Get().(*[maxDatagram]byte)
	defer buffers.Put(buf)
	if _, err := conn.Write(q.appendTo(buf[:0], d.id)); err != nil {
		_ = conn.Close()
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
		if err := d.conn.SetReadDeadline(slice); err != nil {
			return err
		}
		n, err := d.conn.Read(buf[:])
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
		use(buf[:n])
		return nil
	}
}

// Close closes the socket.
func (d *Datagram) Close() { _ = d.conn.Close() }

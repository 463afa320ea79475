package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPipelined is how many queries of one connection are answered at once. The
	// next is read when there is room.
	maxPipelined = 64
	// maxUnread is how many bytes of answers wait for a client that does not read
	// them before no more of its queries are taken, and a zone transfer waits, which
	// comes in hundreds of messages.
	maxUnread = 256 << 10
	// alwaysPipelined is how many queries are answered at once however long their
	// answers are, as long as the client reads them.
	alwaysPipelined = 8
	// partFor is how long a connection's client may take to end it too.
	partFor = 500 * time.Millisecond
	// lingerFor is how long a connection must have been idle to be ended when its
	// group ends. One that is not idle is ended behind an answer.
	lingerFor = 100 * time.Millisecond
)

// stream is a client's connection. Its queries are answered as their answers are
// found, and not in their order (RFC 7766, 6.2.1.1): a slow one holds up none.
type stream struct {
	of    *streams
	conn  *net.TCPConn
	in    *bufio.Reader
	slots chan struct{} // one for each query that is being answered

	// What decides whether there is room for another query. It is looked at for each,
	// without the lock, which those who answer contend for.
	busy    atomic.Int64 // queries that are being answered
	backlog atomic.Int64 // the length of out
	last    atomic.Int64 // the length of the last answer
	waits   atomic.Bool  // next waits for room

	mu      sync.Mutex
	out     []byte // answers to be written
	spare   []byte // what was written, to be used again
	writing bool
	closed  bool
	room    sync.Cond // out has become shorter, or a slot free
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, MaxAnswer) }}

func newStream(of *streams, conn *net.TCPConn) *stream {
	s := &stream{of: of, conn: conn, slots: make(chan struct{}, maxPipelined)}
	s.in = readers.Get().(*bufio.Reader) //nolint:errcheck // nothing else is in there
	s.in.Reset(conn)
	s.room.L = &s.mu
	return s
}

// serve answers until the client has gone, or was silent for too long, or has
// asked as often as the Corefile allows.
func (s *stream) serve() {
	for n := 0; ; n++ {
		t := s.of.target.Load()
		if most := t.server.MaxTCPQueries; most >= 0 && n >= most {
			break
		}
		patience := t.server.IdleTimeout
		if n == 0 {
			patience = t.server.ReadTimeout
		}
		j, err := s.next(patience)
		if err != nil {
			if !canRead(err) {
				_ = s.Close()
			}
			break
		}
		s.ask(j)
	}
	for range maxPipelined { // all have been answered
		s.slots <- struct{}{}
	}
	s.part()
	s.in.Reset(nil)
	readers.Put(s.in)
}

// canRead says of an error in reading whether the client may still read: it has said
// all it had to say, in the middle of a query too, or was silent for too long.
func canRead(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded)
}

// part ends the connection so that the client gets all answers: closing one on
// which something is still to be read resets it, and takes along what the client
// has not read.
func (s *stream) part() {
	if s.conn.CloseWrite() == nil {
		_ = s.conn.SetReadDeadline(time.Now().Add(partFor))
		_, _ = io.Copy(io.Discard, s.conn)
	}
	_ = s.Close()
}

// next reads a query, once it has a slot. Time runs while nothing is being
// answered.
func (s *stream) next(patience time.Duration) (*job, error) {
	for {
		s.of.setDeadline(s.conn, patience)
		_, err := s.in.Peek(2)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || s.in.Buffered() > 0 || len(s.slots) == 0 {
			return nil, err
		}
	}
	waited, open := s.take() // from here on it is not idle
	if !open {
		return nil, net.ErrClosed
	}
	// Waiting for room was not the client's time, and an answer may just have ended that.
	if waited || s.of.ending.Load() != 0 {
		s.of.setDeadline(s.conn, patience)
	}
	j := newJob()
	if err := j.read(s.in); err != nil {
		s.done()
		j.free()
		return nil, err
	}
	return j, nil
}

// take takes a slot, once there is room for another answer, and says whether that
// had to be waited for; none if the connection was closed. Only next calls it.
func (s *stream) take() (waited, open bool) {
	if waited = !s.hasRoom(); waited && !s.await() {
		return waited, false
	}
	s.busy.Add(1)
	s.slots <- struct{}{}
	return waited, true
}

// await waits for room; false: the connection was closed.
func (s *stream) await() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits.Store(true)
	for !s.closed && !s.hasRoom() {
		s.room.Wait()
	}
	s.waits.Store(false)
	return !s.closed
}

// hasRoom says whether another query may be taken. What its answer takes before it
// can be written is not known: those on their way count as the last one that came.
func (s *stream) hasRoom() bool {
	n, out := s.busy.Load(), s.backlog.Load()
	return n < maxPipelined && out <= maxUnread && (n < alwaysPipelined || out+n*s.last.Load() <= maxUnread)
}

// read reads a query with its length (RFC 1035, 4.2.2).
func (j *job) read(in io.Reader) error {
	var length [2]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	if cap(j.packet) < n {
		j.packet = make([]byte, n)
	}
	j.packet = j.packet[:n]
	_, err := io.ReadFull(in, j.packet)
	return err
}

// ask has a query answered, with SERVFAIL if too many wait.
func (s *stream) ask(j *job) {
	j.from, j.to = s, s.of.target.Load() // a reload may have come while it was read
	if s.of.pool.run(j) {
		return
	}
	s.of.overflow.Add(1)
	if n := len(j.packet); n <= maxQuery {
		b := make([]byte, MaxAnswer)
		copy(b, j.packet)
		if n = refuse(b, n, new(Query)); n > 0 {
			_ = s.Send(b[:n]) // the client went away: nobody to tell
		}
	}
	s.done()
	j.free()
}

// done makes room for another query. While the group ends it is time to part when
// all has been answered: the client has least reason to be asking just then.
func (s *stream) done() {
	<-s.slots
	s.busy.Add(-1)
	if s.waits.Load() {
		s.mu.Lock()
		s.room.Broadcast()
		s.mu.Unlock()
	}
	if s.of.ending.Load() != 0 && len(s.slots) == 0 {
		_ = s.conn.SetReadDeadline(time.Now())
	}
}

// Send implements Peer. What comes while somebody writes goes out with the next
// write, in one piece. Nobody waits here with an answer, which takes many times as
// much as it does in s.out: next waits instead.
func (s *stream) Send(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.send(b)
}

// sendMore implements asker.
func (s *stream) sendMore(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.out) > maxUnread && !s.closed {
		s.room.Wait()
	}
	return s.send(b)
}

// send sends. The caller holds s.mu.
func (s *stream) send(b []byte) error {
	if s.closed {
		return net.ErrClosed
	}
	s.last.Store(int64(len(b)))
	s.out = binary.BigEndian.AppendUint16(s.out, uint16(len(b))) // #nosec G115 -- a message's length
	s.out = append(s.out, b...)
	s.backlog.Store(int64(len(s.out)))
	if s.writing {
		return nil
	}
	s.writing = true
	defer func() { s.writing = false }()
	var err error
	for len(s.out) > 0 && !s.closed && err == nil {
		out := s.out
		s.out = s.spare[:0]
		s.backlog.Store(0)
		s.mu.Unlock()
		_ = s.conn.SetWriteDeadline(time.Now().Add(s.of.target.Load().server.WriteTimeout))
		_, err = s.conn.Write(out)
		s.mu.Lock()
		if s.spare = out[:0]; cap(out) > MaxAnswer {
			s.spare = nil
		}
		s.room.Broadcast()
	}
	if err != nil {
		s.shut()
	}
	return err
}

// Close ends the connection at once.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shut()
}

// shut closes. The caller holds s.mu.
func (s *stream) shut() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.out = nil
	s.room.Broadcast()
	return s.conn.Close()
}

// LocalAddr implements asker.
func (s *stream) LocalAddr() net.Addr { return s.conn.LocalAddr() }

// RemoteAddr implements asker.
func (s *stream) RemoteAddr() net.Addr { return s.conn.RemoteAddr() }

// Network implements asker.
func (*stream) Network() string { return "tcp" }

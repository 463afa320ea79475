package exchange

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// maxStreams to one server. Many servers answer the questions of a connection
	// one after the other (CoreDNS does), so a busy one gets a few.
	maxStreams = 8
	// maxFresh more, for questions that want a new one, and while old ones end on
	// which somebody still waits.
	maxFresh = 24
	// maxPipelined questions on one connection; with more on all of them, the
	// upstream does not keep up.
	maxPipelined = 256
)

// Errors of connections.
var (
	// ErrBusy is that as much is asked on all connections as may be.
	ErrBusy = errors.New("too many questions are waiting on its connections")
	// errHungUp is that the server closed the connection.
	errHungUp = errors.New("the connection was closed without an answer")
)

// stream is a connection, and those who wait for answers on it.
type stream struct {
	peer    *Peer
	born    time.Time
	ready   chan struct{} // closed when it is connected, or failed
	hangUp  context.CancelFunc
	writing sync.Mutex

	mu      sync.Mutex
	conn    net.Conn
	err     error // ended by it
	waiting map[uint16]*waiter
	load    int // who waits, or is about to
	used    time.Time
	retired bool
	idle    *time.Timer
}

type waiter struct {
	query *Query
	got   chan []byte // capacity 1
	gone  chan struct{}
}

// Ask asks over a connection, TCP or TLS, and gives the answer to use, which may
// keep it. It returns when it has come, the connection has failed or the context
// is done (ErrTimeout). fresh wants a new connection.
func (p *Peer) Ask(ctx context.Context, q *Query, fresh bool, use func(answer []byte)) error {
	for {
		s, reused, err := p.take(fresh)
		if err != nil {
			return err
		}
		err = s.ask(ctx, q, use)
		if errors.Is(err, errHungUp) && reused {
			// The server closed a connection that it had answered on: it was idle, and
			// this crossed. That says nothing about the server.
			fresh = true
			continue
		}
		return err
	}
}

// take is the connection with the fewest who wait, or a new one if on all of them
// somebody waits.
func (p *Peer) take(fresh bool) (s *stream, reused bool, err error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return nil, false, ErrClosed
	}
	var best *stream
	least := maxPipelined
	kept := p.streams[:0]
	for _, s := range p.streams {
		if now.Sub(s.born) >= p.options.MaxAge {
			s.retire()
			continue
		}
		s.mu.Lock()
		load, over := s.load, s.err != nil || s.retired
		s.mu.Unlock()
		if over {
			continue
		}
		kept = append(kept, s)
		if load < least {
			best, least = s, load
		}
	}
	clear(p.streams[len(kept):])
	p.streams = kept
	if best != nil && !fresh && (least == 0 || len(p.streams) >= maxStreams) {
		if best.enter() {
			return best, true, nil
		}
	}
	if len(p.all) >= maxStreams+maxFresh || len(p.streams) >= maxStreams && !fresh {
		if best != nil && best.enter() {
			return best, true, nil
		}
		return nil, false, ErrBusy
	}
	s = p.open(now)
	s.enter()
	return s, false, nil
}

// open begins a connection. p.mu is held.
func (p *Peer) open(now time.Time) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{peer: p, born: now, used: now, ready: make(chan struct{}), hangUp: cancel, waiting: make(map[uint16]*waiter)}
	p.streams = append(p.streams, s)
	p.all[s] = true
	p.wg.Go(func() {
		s.run(ctx)
		p.mu.Lock()
		delete(p.all, s)
		p.mu.Unlock()
	})
	return s
}

// connectWithin bounds a connection that nobody waits for any more.
const connectWithin = 5 * time.Second

func (s *stream) run(ctx context.Context) {
	dialCtx, cancel := context.WithTimeout(ctx, connectWithin)
	conn, err := s.dial(dialCtx)
	cancel()
	if err != nil {
		s.end(err)
		return
	}
	s.mu.Lock()
	if s.err != nil { // ended meanwhile
		s.mu.Unlock()
		_ = conn.Close()
		return
	}
	s.conn = conn
	s.idle = time.AfterFunc(s.peer.options.Expire, s.expire)
	s.mu.Unlock()
	close(s.ready)
	s.end(s.read(conn))
}

func (s *stream) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.peer.addr.String())
	if err != nil || s.peer.options.TLS == nil {
		return conn, err
	}
	c := tls.Client(conn, s.peer.options.TLS)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

// read hands out answers until the connection ends.
func (s *stream) read(conn net.Conn) error {
	in := bufio.NewReaderSize(conn, 4096)
	var length [2]byte
	for {
		if _, err := io.ReadFull(in, length[:]); err != nil {
			return errHungUp
		}
		answer := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(in, answer); err != nil {
			return errHungUp
		}
		s.deliver(answer)
	}
}

func (s *stream) deliver(answer []byte) {
	id, ok := idOf(answer)
	s.mu.Lock()
	w := s.waiting[id]
	if !ok || w == nil || !w.query.answeredBy(answer) {
		s.mu.Unlock()
		s.peer.options.Mismatch()
		return
	}
	delete(s.waiting, id)
	s.mu.Unlock()
	w.got <- answer
}

// enter says that somebody is about to ask; false: it has ended.
func (s *stream) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.retired {
		return false
	}
	s.load++
	return true
}

func (s *stream) leave() {
	s.mu.Lock()
	s.load--
	s.used = time.Now()
	over := s.retired && s.load == 0
	s.mu.Unlock()
	if over {
		s.end(errHungUp)
	}
}

// ask is Peer.Ask on this connection.
func (s *stream) ask(ctx context.Context, q *Query, use func([]byte)) error {
	defer s.leave()
	select {
	case <-s.ready:
	case <-ctx.Done():
		return ErrTimeout
	}
	w := &waiter{query: q, got: make(chan []byte, 1), gone: make(chan struct{})}
	id, err := s.wait(w)
	if err != nil {
		return err
	}
	if err := s.write(ctx, q, id); err != nil {
		s.end(errHungUp)
		return errHungUp
	}
	select {
	case answer := <-w.got:
		use(answer)
		return nil
	case <-w.gone:
		select { // it may have come just before the end
		case answer := <-w.got:
			use(answer)
			return nil
		default:
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.err
	case <-ctx.Done():
		s.mu.Lock()
		delete(s.waiting, id)
		s.mu.Unlock()
		// A connection that swallows a question is not used for another.
		s.retire()
		return ErrTimeout
	}
}

// wait notes who waits, under a random ID.
func (s *stream) wait(w *waiter) (uint16, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	for {
		id := randomID()
		if _, taken := s.waiting[id]; !taken {
			s.waiting[id] = w
			return id, nil
		}
	}
}

func (s *stream) write(ctx context.Context, q *Query, id uint16) error {
	packet := binary.BigEndian.AppendUint16(make([]byte, 0, len(q.packet)+2), uint16(len(q.packet)))
	packet = q.appendTo(packet, id)
	s.writing.Lock()
	defer s.writing.Unlock()
	if until, ok := ctx.Deadline(); ok {
		_ = s.conn.SetWriteDeadline(until) // an error shows when writing
	}
	_, err := s.conn.Write(packet)
	return err
}

// retire closes the connection as soon as nobody waits.
func (s *stream) retire() {
	s.mu.Lock()
	s.retired = true
	over := s.load == 0
	s.mu.Unlock()
	if over {
		s.end(errHungUp)
	}
}

// expire closes it if it was not used for long.
func (s *stream) expire() {
	s.mu.Lock()
	left := s.peer.options.Expire - time.Since(s.used)
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	if s.load > 0 || left > 0 {
		s.idle.Reset(max(left, s.peer.options.Expire/4, time.Millisecond))
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.end(errHungUp)
}

// end ends the connection, and tells whoever waits.
func (s *stream) end(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	conn, waiting := s.conn, s.waiting
	s.waiting = nil
	if s.idle != nil {
		s.idle.Stop()
	}
	s.mu.Unlock()
	s.hangUp()
	if conn != nil {
		_ = conn.Close()
	} else {
		close(s.ready)
	}
	for _, w := range waiting {
		close(w.gone)
	}
}

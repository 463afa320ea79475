package exchange

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/upstream"

	"github.com/miekg/dns"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func peer(t *testing.T, s *upstream.Server, o Options) *Peer {
	t.Helper()
	if o.Expire == 0 {
		o.Expire = 10 * time.Second
	}
	if o.MaxAge == 0 {
		o.MaxAge = time.Minute
	}
	p := New(netip.MustParseAddrPort(s.Addr()), o)
	t.Cleanup(p.Close)
	return p
}

func query(t testing.TB, name string) *Query {
	t.Helper()
	q, err := NewQuery(new(dns.Msg).SetQuestion(name, dns.TypeA))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func overUDP(p *Peer, q *Query, within time.Duration) (m *dns.Msg, err error) {
	d, err := p.Send(q)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var bad error
	err = d.Receive(time.Now().Add(within), func(b []byte) { m = new(dns.Msg); bad = m.Unpack(b) })
	return m, errors.Join(err, bad)
}

func overTCP(p *Peer, q *Query, within time.Duration) (m *dns.Msg, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var bad error
	err = p.Ask(ctx, q, false, func(b []byte) { m = new(dns.Msg); bad = m.Unpack(b) })
	return m, errors.Join(err, bad)
}

// TestOnlyAnswers: what has a wrong ID, question or address, or is none, is
// ignored and counted; the right answer after it counts.
func TestOnlyAnswers(t *testing.T) {
	s := upstream.Run(t, "")
	var odd atomic.Int32
	p := peer(t, s, Options{Mismatch: func() { odd.Add(1) }})
	for _, test := range []struct {
		script string
		udp    error
		odd    int32
	}{
		{"", nil, 0},
		{"* spoof", nil, 1},
		{"* wrongid", ErrTimeout, 1},
		{"* wrongname", ErrTimeout, 1},
		{"* noquestion", ErrTimeout, 1},
		{"* elsewhere", ErrTimeout, 0}, // the system drops it
		{"* drop", ErrTimeout, 0},
	} {
		s.Set(test.script)
		odd.Store(0)
		if _, err := overUDP(p, query(t, "A.test."), 60*time.Millisecond); !errors.Is(err, test.udp) {
			t.Errorf("%q over UDP: %v, want %v", test.script, err, test.udp)
		}
		if n := odd.Load(); n != test.odd {
			t.Errorf("%q over UDP: %d mismatches, want %d", test.script, n, test.odd)
		}
		if test.script == "* elsewhere" {
			continue
		}
		odd.Store(0)
		if _, err := overTCP(p, query(t, "A.test."), 60*time.Millisecond); !errors.Is(err, test.udp) {
			t.Errorf("%q over TCP: %v, want %v", test.script, err, test.udp)
		}
		if n := odd.Load(); n != test.odd && test.script != "* spoof" { // the forgery may follow
			t.Errorf("%q over TCP: %d mismatches, want %d", test.script, n, test.odd)
		}
	}
}

// TestUnpredictable: every question has a random ID, and a source port that is
// left to chance and changes.
func TestUnpredictable(t *testing.T) {
	s := upstream.Run(t, "")
	p := peer(t, s, Options{})
	const n = 800
	for range n {
		d, err := p.Send(query(t, "a.test."))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Receive(time.Now().Add(time.Second), func([]byte) {}); err != nil {
			t.Fatal(err)
		}
		d.Close()
	}
	ids, ports := map[uint16]bool{}, map[uint16]int{}
	same, last := 0, uint16(0)
	for _, q := range s.Queries() {
		ids[q.ID] = true
		ports[q.From.Port()]++
		if q.From.Port() == last {
			same++
		}
		last = q.From.Port()
	}
	if len(ids) < n*95/100 || len(ports) < n/socketUses || same > n/4 {
		t.Errorf("%d questions with %d IDs from %d ports; %d times the one before's", n, len(ids), len(ports), same)
	}
	for port, uses := range ports {
		if uses > socketUses {
			t.Errorf("port %d was used %d times", port, uses)
		}
	}
	within := time.Now().Add(3 * socketAge)
	for idle := 1; idle > 0; time.Sleep(50 * time.Millisecond) {
		p.sockets.mu.Lock()
		idle = len(p.sockets.idle)
		p.sockets.mu.Unlock()
		if time.Now().After(within) {
			t.Fatalf("%d sockets are left open", idle)
		}
	}
}

// TestPipelined: questions on one connection do not wait for each other's answers.
func TestPipelined(t *testing.T) {
	s := upstream.Run(t, "slow.test delay 300ms")
	p := peer(t, s, Options{})
	var wg sync.WaitGroup
	for range maxStreams { // every connection has a slow one
		wg.Go(func() {
			if _, err := overTCP(p, query(t, "slow.test."), time.Second); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	start := time.Now()
	for i := range 100 {
		wg.Go(func() {
			name := fmt.Sprintf("fast%d.test.", i)
			m, err := overTCP(p, query(t, name), time.Second)
			if err != nil || m.Question[0].Name != name {
				t.Error(name, m, err)
			}
			if took := time.Since(start); took > 200*time.Millisecond {
				t.Errorf("a fast answer took %s", took)
			}
		})
	}
	wg.Wait()
	if n := s.Count().Connections; n > maxStreams {
		t.Errorf("%d connections, at most %d", n, maxStreams)
	}
}

// TestConnectionsEnd: a connection is used again, until it is idle, old, retired
// or closed by the server, and none of that is an error.
func TestConnectionsEnd(t *testing.T) {
	s := upstream.Run(t, "")
	ask := func(p *Peer) {
		t.Helper()
		if _, err := overTCP(p, query(t, "a.test."), time.Second); err != nil {
			t.Error(err)
		}
	}
	connections := func(want uint64, why string) {
		t.Helper()
		if n := s.Count().Connections; n != want {
			t.Errorf("%s: %d connections, want %d", why, n, want)
		}
	}
	p := peer(t, s, Options{Expire: 60 * time.Millisecond, MaxAge: 400 * time.Millisecond})
	ask(p)
	ask(p)
	connections(1, "used again")
	time.Sleep(150 * time.Millisecond)
	ask(p)
	connections(2, "idle")
	for range 22 {
		ask(p)
		time.Sleep(20 * time.Millisecond)
	}
	connections(3, "old")
	p.Retire()
	ask(p)
	connections(4, "retired")
	s.Down()
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	ask(p)
	connections(5, "closed by the server")
}

// TestRacedClose: a connection that the server closes as we use it again is not
// the server's failure: the question is asked on a new one.
func TestRacedClose(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // answers one question, reads another and hangs up
				defer c.Close()
				co := &dns.Conn{Conn: c}
				m, err := co.ReadMsg()
				if err != nil {
					return
				}
				_ = co.WriteMsg(new(dns.Msg).SetReply(m))
				_, _ = co.ReadMsg()
			}()
		}
	}()
	p := New(netip.MustParseAddrPort(l.Addr().String()), Options{Expire: time.Second, MaxAge: time.Minute})
	defer p.Close()
	for range 5 {
		if _, err := overTCP(p, query(t, "a.test."), time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFailures: what fails fails at once, and says so.
func TestFailures(t *testing.T) {
	s := upstream.Run(t, "* close")
	p := peer(t, s, Options{})
	start := time.Now()
	if _, err := overTCP(p, query(t, "a.test."), time.Second); !errors.Is(err, errHungUp) {
		t.Errorf("closed: %v", err)
	}
	s.Down()
	if _, err := overTCP(p, query(t, "a.test."), time.Second); err == nil {
		t.Error("refused TCP: no error")
	}
	if _, err := overUDP(p, query(t, "a.test."), time.Second); err == nil || errors.Is(err, ErrTimeout) {
		t.Errorf("refused UDP: %v", err)
	}
	if took := time.Since(start); took > 500*time.Millisecond {
		t.Errorf("it took %s", took)
	}
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	s.Set("* drop")
	given := make(chan error, 1)
	go func() { _, err := overTCP(p, query(t, "a.test."), 5*time.Second); given <- err }()
	go func() {
		time.Sleep(50 * time.Millisecond)
		p.Retire() // whoever waits goes on waiting
		p.Close()
	}()
	if err := <-given; !errors.Is(err, ErrClosed) {
		t.Errorf("given up over TCP: %v", err)
	}
	if _, err := overUDP(p, query(t, "a.test."), 5*time.Second); !errors.Is(err, ErrClosed) {
		t.Errorf("given up: %v", err)
	}
	if _, err := overTCP(p, query(t, "a.test."), time.Second); !errors.Is(err, ErrClosed) {
		t.Errorf("given up: %v", err)
	}
}

func BenchmarkUDP(b *testing.B) { bench(b, overUDP) }
func BenchmarkTCP(b *testing.B) { bench(b, overTCP) }

func bench(b *testing.B, over func(*Peer, *Query, time.Duration) (*dns.Msg, error)) {
	s, err := upstream.Start(upstream.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	p := New(netip.MustParseAddrPort(s.Addr()), Options{Expire: time.Second, MaxAge: time.Minute})
	defer p.Close()
	q := query(b, "a.test.")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := over(p, q, time.Second); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzAnsweredBy(f *testing.F) {
	q := query(f, "a.test.")
	f.Add(q.appendTo(nil, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= headerSize && q.answeredBy(b) {
			m := new(dns.Msg)
			if err := m.Unpack(b); err == nil && (len(m.Question) != 1 || dns.CanonicalName(m.Question[0].Name) != "a.test." || !m.Response) {
				t.Fatalf("%v", m)
			}
		}
		_, _ = questionEnd(b)
	})
}

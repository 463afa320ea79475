package resolvers

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// server answers, drops or refuses, as its script says.
type server struct {
	addr netip.AddrPort
	conn *net.UDPConn

	mu    sync.Mutex
	does  func(n int) string // "answer", "drop", "refuse", "wrong" for its nth query, from 0
	heard []heard
}

// heard is a query as it arrived.
type heard struct {
	from netip.AddrPort
	id   uint16
	kind uint16
	at   time.Time
}

func newServer(t *testing.T, does func(n int) string) *server {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{conn: conn, does: does, addr: conn.LocalAddr().(*net.UDPAddr).AddrPort()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve()
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return s
}

func (s *server) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		m := new(dns.Msg)
		if m.Unpack(buf[:n]) != nil {
			continue
		}
		s.mu.Lock()
		what := s.does(len(s.heard))
		s.heard = append(s.heard, heard{from, m.Id, m.Question[0].Qtype, time.Now()})
		s.mu.Unlock()
		answer := new(dns.Msg)
		answer.SetReply(m)
		switch what {
		case "drop":
			continue
		case "refuse":
			answer.Rcode = dns.RcodeRefused
		case "wrong":
			answer.Id++
		}
		wire, _ := answer.Pack()
		_, _ = s.conn.WriteToUDPAddrPort(wire, from)
	}
}

func (s *server) queries() []heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]heard(nil), s.heard...)
}

func always(what string) func(int) string { return func(int) string { return what } }

var local = netip.MustParseAddr("127.0.0.77")

const soon = 60 * time.Millisecond

func TestGlibcAsksOneAfterTheOther(t *testing.T) {
	dead, alive := newServer(t, always("drop")), newServer(t, always("answer"))
	g := &Glibc{Local: local, Servers: []netip.AddrPort{dead.addr, alive.addr}, Timeout: soon, Attempts: 2}
	for range 2 { // the second lookup has learnt nothing from the first
		r := g.Lookup(context.Background(), "www.example.com")
		if !r.Answered() || r.By != alive.addr {
			t.Fatalf("answered by %v", r.By)
		}
		if took := r.Ended.Sub(r.Began); took < soon || took > 20*soon {
			t.Errorf("took %v, not one timeout", took)
		}
		if len(r.Sent) != 4 || r.Sent[0].To != dead.addr || r.Sent[3].To != alive.addr {
			t.Errorf("sent %v", r.Sent)
		}
	}
	if n := len(dead.queries()); n != 4 {
		t.Errorf("the dead server was asked %d times, not 4", n)
	}
}

func TestGlibcAsksAgainFromTheSamePortWithTheSameID(t *testing.T) {
	dead := newServer(t, always("drop"))
	g := &Glibc{Local: local, Servers: []netip.AddrPort{dead.addr}, Timeout: soon, Attempts: 2}
	if r := g.Lookup(context.Background(), "www.example.com"); r.Answered() || len(r.Sent) != 4 {
		t.Fatalf("%+v", r)
	}
	same(t, dead.queries())
}

// same holds a second attempt to the first: A and AAAA, then A and AAAA again.
func same(t *testing.T, q []heard) {
	t.Helper()
	if len(q) != 4 {
		t.Fatalf("%d queries", len(q))
	}
	for i := range 2 {
		first, again := q[i], q[i+2]
		if first.from != again.from || first.id != again.id || first.kind != again.kind {
			t.Errorf("asked again from %v with ID %d, first from %v with %d", again.from, again.id, first.from, first.id)
		}
		if first.from.Addr() != local {
			t.Errorf("asked from %v", first.from)
		}
	}
}

func TestGlibcWaits(t *testing.T) {
	three := NewGlibc(local, make([]netip.AddrPort, 3)...)
	for i, want := range []time.Duration{5 * time.Second, 3 * time.Second, 6 * time.Second} {
		if got := three.wait(i); got != want {
			t.Errorf("server %d: %v, not %v", i, got, want)
		}
	}
	one := &Glibc{Servers: make([]netip.AddrPort, 3), Timeout: time.Second}
	if got := one.wait(1); got != time.Second {
		t.Errorf("timeout:1 waits %v for the second server, not a second", got)
	}
}

func TestErrorsAreNoAnswers(t *testing.T) {
	bad, good := newServer(t, always("refuse")), newServer(t, always("answer"))
	servers := []netip.AddrPort{bad.addr, good.addr}
	for name, r := range map[string]Resolver{
		"glibc":    &Glibc{Local: local, Servers: servers, Timeout: 5 * time.Second, Attempts: 2},
		"musl":     &Musl{Local: local, Servers: servers, Timeout: 5 * time.Second, Attempts: 2},
		"resolved": &Resolved{Local: local, Servers: servers, Timeout: 5 * time.Second, Attempts: 24},
	} {
		res := r.Lookup(context.Background(), "www.example.com")
		if res.By != good.addr || res.Ended.Sub(res.Began) > 3*time.Second {
			t.Errorf("%s: answered by %v after %v", name, res.By, res.Ended.Sub(res.Began))
		}
	}
}

func TestStrangersAreNotBelieved(t *testing.T) {
	liar := newServer(t, always("wrong"))
	servers := []netip.AddrPort{liar.addr}
	for name, r := range map[string]Resolver{
		"glibc":    &Glibc{Local: local, Servers: servers, Timeout: soon, Attempts: 1},
		"musl":     &Musl{Local: local, Servers: servers, Timeout: soon, Attempts: 1},
		"resolved": &Resolved{Local: local, Servers: servers, Timeout: soon, Attempts: 1},
	} {
		if r.Lookup(context.Background(), "www.example.com").Answered() {
			t.Errorf("%s believed an answer with another ID", name)
		}
	}
}

func TestMuslAsksAllAtOnce(t *testing.T) {
	dead, alive := newServer(t, always("drop")), newServer(t, always("answer"))
	m := NewMusl(local, dead.addr, alive.addr)
	r := m.Lookup(context.Background(), "www.example.com")
	if r.By != alive.addr || r.Ended.Sub(r.Began) > 2*time.Second {
		t.Errorf("answered by %v after %v", r.By, r.Ended.Sub(r.Began))
	}
	if len(dead.queries()) != 2 || len(alive.queries()) != 2 {
		t.Errorf("asked %d and %d times", len(dead.queries()), len(alive.queries()))
	}
}

func TestMuslAsksAgainFromTheSamePortWithTheSameID(t *testing.T) {
	dead := newServer(t, always("drop"))
	m := &Musl{Local: local, Servers: []netip.AddrPort{dead.addr}, Timeout: 2 * soon, Attempts: 2}
	r := m.Lookup(context.Background(), "www.example.com")
	if took := r.Ended.Sub(r.Began); r.Answered() || took < 2*soon {
		t.Errorf("answered %v after %v", r.Answered(), took)
	}
	same(t, dead.queries())
}

func TestResolvedRemembersWhoAnswers(t *testing.T) {
	dead, alive := newServer(t, always("drop")), newServer(t, always("answer"))
	r := &Resolved{Local: local, Servers: []netip.AddrPort{dead.addr, alive.addr}, Timeout: soon, Attempts: 24}
	if res := r.Lookup(context.Background(), "www.example.com"); res.By != alive.addr || res.Ended.Sub(res.Began) < soon {
		t.Fatalf("first: by %v after %v", res.By, res.Ended.Sub(res.Began))
	}
	first := len(dead.queries())
	for range 3 {
		if res := r.Lookup(context.Background(), "www.example.com"); res.By != alive.addr {
			t.Fatalf("later: by %v", res.By)
		}
	}
	if n := len(dead.queries()); n != first || first != 2 {
		t.Errorf("the dead server was asked %d, then %d times", first, n)
	}
	// The question keeps its ID, but comes from a new socket.
	asked := map[uint16]netip.AddrPort{}
	for _, q := range dead.queries() {
		asked[q.id] = q.from
	}
	moved := 0
	for _, q := range alive.queries() {
		if from, ok := asked[q.id]; ok {
			moved++
			if from == q.from {
				t.Errorf("ID %d came from the same socket", q.id)
			}
		}
	}
	if moved != 2 {
		t.Errorf("%d questions moved with their IDs, not 2", moved)
	}
}

func TestLookupsEndWithTheirContext(t *testing.T) {
	dead := newServer(t, always("drop"))
	for name, r := range map[string]Resolver{"glibc": NewGlibc(local, dead.addr), "musl": NewMusl(local, dead.addr), "resolved": NewResolved(local, dead.addr)} {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		began := time.Now()
		r.Lookup(ctx, "www.example.com")
		cancel()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s took %v to end", name, took)
		}
	}
}

package main

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// saw is a query as the fake server got it.
type saw struct {
	from  netip.AddrPort
	name  string
	qtype uint16
}

// fake answers as it is told: 0 is an answer, -1 silence, else this error.
func fake(t *testing.T, tell func(n int, q saw) int) (*stub, func() []saw) {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	var mu sync.Mutex
	var all []saw
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.(*net.UDPConn).ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			var q dns.Msg
			if q.Unpack(buf[:n]) != nil {
				continue
			}
			mu.Lock()
			all = append(all, saw{from, q.Question[0].Name, q.Question[0].Qtype})
			what := tell(len(all)-1, all[len(all)-1])
			mu.Unlock()
			var out []byte
			switch {
			case what == 0:
				out = zoneAnswer(buf[:n], make([]byte, 0, 512))
			case what > 0:
				out, _ = new(dns.Msg).SetRcode(&q, what).Pack()
			default:
				continue
			}
			pc.WriteTo(out, net.UDPAddrFromAddrPort(from))
		}
	}()
	s := &stub{local: netip.MustParseAddr("127.0.0.1"), server: netip.MustParseAddrPort(pc.LocalAddr().String()), timeout: 150 * time.Millisecond}
	return s, func() []saw { mu.Lock(); defer mu.Unlock(); return append([]saw(nil), all...) }
}

func TestStubWalksTheSearchList(t *testing.T) {
	s, seen := fake(t, func(int, saw) int { return 0 })
	s.timeout = 5 * time.Second
	if l := s.lookup(context.Background(), serviceName(1)); !l.ok || l.wanted != 2 || l.sent != 2 {
		t.Errorf("A service = %+v, want two queries", l)
	}
	if l := s.lookup(context.Background(), siteName(1)); !l.ok || l.wanted != 8 || l.sent != 8 {
		t.Errorf("A site = %+v, want eight queries", l)
	}
	ports := map[netip.AddrPort]bool{}
	for _, q := range seen() {
		ports[q.from] = true
	}
	if len(ports) != 5 {
		t.Errorf("%d ports for five names, want one for each", len(ports))
	}
}

func TestStubAsksASilentServerTwiceFromOnePort(t *testing.T) {
	s, seen := fake(t, func(int, saw) int { return -1 })
	begin := time.Now()
	l := s.lookup(context.Background(), siteName(1))
	all := seen()
	if l.ok || l.sent != 4 || len(all) != 4 {
		t.Fatalf("Lookup = %+v, server saw %v, want four queries and no further name", l, all)
	}
	for _, q := range all {
		if q.from != all[0].from {
			t.Errorf("Query from %s, the first was from %s: glibc keeps the socket", q.from, all[0].from)
		}
	}
	if d := time.Since(begin); d < 2*s.timeout {
		t.Errorf("Gave up after %s, want two timeouts", d)
	}
}

func TestExchangeTellsAnswersApart(t *testing.T) {
	e, err := newExchange("a.example.", 65535)
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range e.wire {
		if got := e.match(zoneAnswer(q, make([]byte, 0, 512))); got != i {
			t.Errorf("The answer to question %d is taken for that to %d", i, got)
		}
	}
	if got := e.match(e.wire[0]); got != -1 {
		t.Errorf("A query is taken for the answer to %d", got)
	}
}

// Half an answer: from a new socket, and only what is missing.
func TestStubAsksForTheMissingHalf(t *testing.T) {
	s, seen := fake(t, func(n int, q saw) int {
		if n < 2 && q.qtype == dns.TypeAAAA {
			return -1
		}
		return 0
	})
	l := s.lookup(context.Background(), serviceName(1))
	all := seen()
	if !l.ok || len(all) != 3 || all[2].qtype != dns.TypeAAAA || all[2].from == all[0].from {
		t.Errorf("Lookup = %+v, server saw %v, want AAAA again from another port", l, all)
	}
}

// SERVFAIL: again at once from a new socket, then the next name.
func TestStubGoesOnAfterServfail(t *testing.T) {
	s, seen := fake(t, func(_ int, q saw) int {
		if q.name == siteName(1)+"." {
			return 0
		}
		return dns.RcodeServerFailure
	})
	s.timeout = 5 * time.Second
	begin := time.Now()
	l := s.lookup(context.Background(), siteName(1))
	if !l.ok || time.Since(begin) > 4*time.Second {
		t.Errorf("Lookup = %+v after %s, want an answer and no waiting: %v", l, time.Since(begin), seen())
	}
}

package wire_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/wire"
	"firebreakdns.io/firebreak/test/load"

	"github.com/coredns/caddy"
	"github.com/miekg/dns"
)

func newLoad(t testing.TB, addr, name string, sockets, rate int) *load.Load {
	t.Helper()
	return load.Start(t, addr, pack(t, query(name, dns.TypeA)), sockets, rate)
}

// TestTurnedOff takes the wire path away by a reload, under load, and gives it
// back.
func TestTurnedOff(t *testing.T) {
	up := newUpstream(t)
	on := ".:PORT {\nbind 127.0.0.1\nerrors\nnodecache\nforward . " + up.addr + "\n}\n"
	inst, port := start(t, on)
	on = strings.ReplaceAll(on, "PORT", port)
	off := strings.Replace(on, "errors", "log", 1)
	addr := "127.0.0.1:" + port
	onWire(t, addr)
	newClient(t).ask(addr, pack(t, query("a.example.", dns.TypeA)), time.Second)
	l := newLoad(t, addr, "a.example.", 4, 2000)
	time.Sleep(200 * time.Millisecond)
	reload(t, inst, off)
	if wire.Find(addr) != nil {
		t.Error("the sockets are open although log is ahead of the cache")
	}
	time.Sleep(200 * time.Millisecond)
	reload(t, inst, on)
	onWire(t, addr)
	time.Sleep(200 * time.Millisecond)
	if lost := l.End(); lost != 0 || l.Wrong() != 0 {
		t.Errorf("of %d queries %d were lost and %d answered wrongly", l.Sent(), lost, l.Wrong())
	}
}

func TestOneQuestionForTenThousand(t *testing.T) {
	up := newUpstream(t)
	up.set(1500*time.Millisecond, false, 0)
	_, port := start(t, ".:PORT {\nbind 127.0.0.1\nclients\nerrors\nnodecache\nforward . "+up.addr+"\n}\n")
	addr := "127.0.0.1:" + port
	onWire(t, addr)
	const clients, each = 20, 500
	var wg sync.WaitGroup
	var right atomic.Int64
	for i := range clients {
		wg.Go(func() {
			c, err := net.Dial("udp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_ = c.(*net.UDPConn).SetReadBuffer(4 << 20)
			name := "OnCe.example."
			if i%2 == 0 {
				name = "once.EXAMPLE."
			}
			m := query(name, dns.TypeA)
			if i%3 == 0 {
				m.SetEdns0(1232, false)
			}
			for n := range each {
				m.Id = uint16(n + 1)
				if _, err := c.Write(pack(t, m)); err != nil {
					t.Error(err)
				}
				if n%50 == 0 {
					time.Sleep(5 * time.Millisecond)
				}
			}
			seen := make(map[uint16]bool)
			b := make([]byte, 4096)
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			for len(seen) < each {
				n, err := c.Read(b)
				if err != nil {
					t.Errorf("client %d got %d of %d answers", i, len(seen), each)
					return
				}
				r := new(dns.Msg)
				if err := r.Unpack(b[:n]); err != nil || seen[r.Id] || r.Question[0].Name != name || len(r.Answer) != 1 ||
					r.Answer[0].Header().Name != name || (r.IsEdns0() != nil) != (i%3 == 0) {
					t.Errorf("not the answer: %v %v", err, r)
					return
				}
				seen[r.Id] = true
				right.Add(1)
			}
		})
	}
	wg.Wait()
	if n := up.asked.Load(); n != 1 || right.Load() != clients*each {
		t.Errorf("%d right answers for %d queries, %d upstream", right.Load(), clients*each, n)
	}
}

func TestStaleWhenUpstreamIsDead(t *testing.T) {
	up := newUpstream(t)
	inst, port := start(t, ".:PORT {\nbind 127.0.0.1\nnodecache {\nsuccess 0 1\nprefetch 0\n}\nforward . "+up.addr+"\n}\n")
	_ = inst
	addr := "127.0.0.1:" + port
	onWire(t, addr)
	c := newClient(t)
	m := query("a.example.", dns.TypeA)
	m.SetEdns0(1232, false)
	ask := func() (*dns.Msg, time.Duration) {
		began := time.Now()
		r := new(dns.Msg)
		if b := c.ask(addr, pack(t, m), 9*time.Second); b == nil {
			t.Fatal("no answer")
		} else if err := r.Unpack(b); err != nil {
			t.Fatal(err)
		}
		return r, time.Since(began)
	}
	if r, _ := ask(); len(r.Answer) != 1 || r.Answer[0].Header().Ttl != 1 {
		t.Fatal(r)
	}
	up.set(0, true, 0)
	time.Sleep(1100 * time.Millisecond)
	stale := func(r *dns.Msg) {
		t.Helper()
		if len(r.Answer) != 1 || r.Answer[0].Header().Ttl != 30 {
			t.Fatal(r)
		}
		ede, _ := r.IsEdns0().Option[0].(*dns.EDNS0_EDE)
		if ede == nil || ede.InfoCode != dns.ExtendedErrorCodeStaleAnswer {
			t.Fatal(r)
		}
	}
	r, took := ask()
	stale(r)
	if took < 150*time.Millisecond || took > 600*time.Millisecond {
		t.Errorf("the first stale answer took %s", took)
	}
	before := answered(t)
	for range 5 {
		r, took := ask()
		stale(r)
		if took > 150*time.Millisecond {
			t.Errorf("a later stale answer took %s", took)
		}
	}
	if n := answered(t) - before; n != 5 {
		t.Errorf("%d of 5 stale answers took the wire path", n)
	}
	// What is not held fails, and says why.
	m = query("other.example.", dns.TypeA)
	m.SetEdns0(1232, false)
	r, _ = ask()
	if r.Rcode != dns.RcodeServerFailure || len(r.IsEdns0().Option) != 1 {
		t.Errorf("%v", r)
	}
	up.set(0, false, 0)
	time.Sleep(1100 * time.Millisecond)
	if r, took := ask(); r.Rcode != 0 || took > time.Second {
		t.Errorf("the first success was not served at once: %v, %s", r, took)
	}
}

func TestRefreshFailuresAreNotRepeated(t *testing.T) {
	up := newUpstream(t)
	_, port := start(t, ".:PORT {\nbind 127.0.0.1\nnodecache {\nsuccess 0 1\nprefetch 0\n}\nforward . "+up.addr+"\n}\n")
	addr := "127.0.0.1:" + port
	onWire(t, addr)
	c := newClient(t)
	p := pack(t, query("a.example.", dns.TypeA))
	c.ask(addr, p, time.Second)
	up.set(0, false, dns.RcodeServerFailure)
	time.Sleep(1100 * time.Millisecond)
	before := up.asked.Load()
	for range 100 {
		if b := c.ask(addr, p, time.Second); b == nil || b[3]&0xf != 0 {
			t.Fatalf("not the stale answer: %x", b)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := up.asked.Load() - before; n != 1 {
		t.Errorf("the failing upstream was asked %d times in a second", n)
	}
}

// TestManySockets: several sockets at one address share the packets.
func TestManySockets(t *testing.T) {
	up := newUpstream(t)
	_, port := start(t, ".:PORT {\nmultisocket 3\nbind 127.0.0.1\nnodecache\nforward . "+up.addr+"\n}\n")
	addr := "127.0.0.1:" + port
	onWire(t, addr)
	newClient(t).ask(addr, pack(t, query("a.example.", dns.TypeA)), time.Second)
	before := answered(t)
	l := newLoad(t, addr, "a.example.", 2, 3000)
	time.Sleep(500 * time.Millisecond)
	if lost := l.End(); lost != 0 {
		t.Errorf("%d of %d lost", lost, l.Sent())
	}
	if n := int64(answered(t) - before); n < l.Sent()*95/100 {
		t.Errorf("only %d of %d on the wire path", n, l.Sent())
	}
}

// TestMetricsCountWireAnswers holds coredns_dns_* of both ways to each other.
func TestMetricsCountWireAnswers(t *testing.T) {
	up := newUpstream(t)
	_, port := start(t, "example:PORT .:PORT {\nbind 127.0.0.1\nclients\nprometheus 127.0.0.1:0\nerrors\nnodecache\nforward . "+up.addr+"\n}\n")
	addr := "127.0.0.1:" + port
	onWire(t, addr)
	c := newClient(t)
	m := query("a.example.", dns.TypeAAAA)
	m.SetEdns0(1232, true)
	at := []string{"server=dns://" + addr, "zone=example."}
	names := []string{"coredns_dns_requests_total", "coredns_dns_do_requests_total", "coredns_dns_responses_total", "coredns_dns_request_duration_seconds",
		"coredns_dns_request_size_bytes", "coredns_dns_response_size_bytes", "coredns_clients_queries_total", "coredns_clients_answers_total"}
	c.ask(addr, pack(t, m), time.Second)
	before := make(map[string]float64)
	for _, n := range names {
		before[n] = metric(t, n, at[:1]...)
	}
	onceBefore := answered(t)
	for range 10 {
		c.ask(addr, pack(t, m), time.Second)
	}
	if n := answered(t) - onceBefore; n != 10 {
		t.Fatalf("%d of 10 on the wire path", n)
	}
	for _, n := range names {
		if d := metric(t, n, at[:1]...) - before[n]; d != 10 {
			t.Errorf("%s counted %v of 10", n, d)
		}
	}
	if n := metric(t, "coredns_dns_requests_total", append(at, "type=AAAA", "family=1", "proto=udp")...); n != 11 {
		t.Errorf("requests by type: %v", n)
	}
	if n := metric(t, "coredns_dns_responses_total", append(at, "rcode=NOERROR", "plugin=errors")...); n != 11 {
		t.Errorf("responses by rcode: %v", n)
	}
}

func TestWhatTurnsItOff(t *testing.T) {
	up := newUpstream(t)
	for name, corefile := range map[string]string{
		"log":     ".:PORT {\nbind 127.0.0.1\nlog\nnodecache\nforward . UP\n}\n",
		"rewrite": ".:PORT {\nbind 127.0.0.1\nrewrite name exact a.invalid b.invalid\nnodecache\nforward . UP\n}\n",
		"shed":    ".:PORT {\nbind 127.0.0.1\nshed\nnodecache\nforward . UP\n}\n",
		"none":    ".:PORT {\nbind 127.0.0.1\nforward . UP\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, port := start(t, strings.ReplaceAll(corefile, "UP", up.addr))
			if g := wire.Find("127.0.0.1:" + port); g != nil {
				t.Error("it is on")
			}
			if b := newClient(t).ask("127.0.0.1:"+port, pack(t, query("a.example.", dns.TypeA)), time.Second); b == nil || b[3]&0xf != 0 {
				t.Errorf("no answer: %x", b)
			}
		})
	}
}

func TestRestartFromSnapshot(t *testing.T) {
	up := newUpstream(t)
	dir := t.TempDir()
	corefile := ".:PORT {\nbind 127.0.0.1\nnodecache 3600 {\nsnapshot " + dir + "/cache\n}\nforward . " + up.addr + "\n}\n"
	port := freePort(t)
	corefile = strings.ReplaceAll(corefile, "PORT", port)
	run := func(do func(addr string)) {
		inst, err := caddy.Start(input(corefile))
		if err != nil {
			t.Fatal(err)
		}
		do("127.0.0.1:" + port)
		stop(t, inst)
	}
	name := func(i int) []byte { return pack(t, query(fmt.Sprintf("n%d.example.", i), dns.TypeA)) }
	run(func(addr string) {
		c := newClient(t)
		for i := range 200 {
			c.ask(addr, name(i), time.Second)
		}
	})
	up.set(0, true, 0)
	run(func(addr string) {
		c := newClient(t)
		for i := range 200 {
			if b := c.ask(addr, name(i), time.Second); b == nil || b[3]&0xf != 0 || b[7] != 1 {
				t.Fatalf("%d: %x", i, b)
			}
		}
	})
}

package calm_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const cacheOnly = "errors\nclients\nnodecache\nhedge ."

// TestStream: queries that are sent on one TCP connection without waiting get
// each its own answer, and a slow one holds up none of the others, be they held or
// not (RFC 7766, 6.2.1.1).
func TestStream(t *testing.T) {
	ups, addrs := upstreams(t, 1)
	s := start(t, cacheOnly+addrs)
	if _, _, err := ask(s.addr, "held.test.", 4*time.Second); err != nil {
		t.Fatal(err)
	}
	ups[0].Set("slow.test delay 300ms")
	c := stream(t, s)
	const quick = 20
	for i := range quick + 1 {
		q := query("slow.test.")
		switch {
		case i > quick/2:
			q = query(fmt.Sprintf("miss%d.test.", i))
		case i > 0:
			q = query("held.test.")
		}
		q.Id = uint16(i)
		if err := c.WriteMsg(q); err != nil {
			t.Fatal(err)
		}
	}
	order := answers(t, c, quick+1)
	if order[quick] != 0 {
		t.Errorf("the slow one was not the last: %v", order)
	}
}

// stream is a connection that the node cache has taken, and not CoreDNS.
func stream(t testing.TB, s *server) *dns.Conn {
	t.Helper()
	eventually(t, 5*time.Second, "connections are taken by the node cache", func() bool {
		before := connections(t, s)
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		time.Sleep(5 * time.Millisecond)
		return connections(t, s) > before
	})
	c, err := dns.DialTimeout("tcp", s.addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

func connections(t testing.TB, s *server) float64 {
	return metric(t, "coredns_nodecache_wire_connections", "server=dns://"+s.addr)
}

// answers reads n good ones, each to another query, and says in which order they
// came.
func answers(t testing.TB, c *dns.Conn, n int) (ids []uint16) {
	t.Helper()
	seen := make(map[uint16]bool)
	for range n {
		r, err := c.ReadMsg()
		if b := bad(r, err); b != "" || seen[r.Id] || int(r.Id) >= n {
			t.Fatalf("after %d answers: %s", len(seen), b)
		}
		seen[r.Id] = true
		ids = append(ids, r.Id)
	}
	return ids
}

// TestStreamOfMany: more queries at once than are answered at once, and a client
// that has said all it has to say, the last of it cut short or not; it gets all
// answers, and then the end.
func TestStreamOfMany(t *testing.T) {
	_, addrs := upstreams(t, 1)
	s := start(t, cacheOnly+addrs)
	for what, rest := range map[string][]byte{"": nil, "half a length": {0}, "half a query": {0, 40, 1, 2, 3}} {
		t.Run(what, func(t *testing.T) {
			c := stream(t, s)
			const n = 1000
			go func() {
				for i := range n {
					q := query(fmt.Sprintf("many%d.test.", i%300))
					q.Id = uint16(i)
					if c.WriteMsg(q) != nil {
						return
					}
				}
				_, _ = c.Conn.Write(rest)
				_ = c.Conn.(*net.TCPConn).CloseWrite()
			}()
			answers(t, c, n)
			if _, err := c.ReadMsg(); !errors.Is(err, io.EOF) {
				t.Errorf("after the last answer: %v, want the end", err)
			}
		})
	}
}

// TestStreamWaitsForRoom: while as many queries are being answered as may be, the
// next one waits, and its client's time does not run: not if it came in pieces
// either.
func TestStreamWaitsForRoom(t *testing.T) {
	ups, addrs := upstreams(t, 1)
	s := start(t, "timeouts {\nread 1s\nidle 1s\n}\n"+cacheOnly+addrs)
	c := stream(t, s)
	ups[0].Set("slow.test delay 1600ms")
	const full = 64
	for i := range full {
		q := query(fmt.Sprintf("%d.slow.test.", i))
		q.Id = uint16(i)
		if err := c.WriteMsg(q); err != nil {
			t.Fatal(err)
		}
	}
	q := query("quick.test.")
	q.Id = full
	packed, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	packed = append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)
	for _, piece := range [][]byte{packed[:7], packed[7:]} {
		if _, err := c.Conn.Write(piece); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	answers(t, c, full+1)
}

// TestStreamIsLetGo: a connection ends when nothing was asked for as long as the
// Corefile says, or half of a query; not while an answer is awaited; and after as
// many queries as it may have.
func TestStreamIsLetGo(t *testing.T) {
	ups, addrs := upstreams(t, 1)
	s := start(t, "timeouts {\nread 1s\nidle 1s\nmaxtcpqueries 3\n}\n"+cacheOnly+addrs)
	ended := func(c *dns.Conn, least, most time.Duration) {
		t.Helper()
		began := time.Now()
		_, err := c.Read(make([]byte, 1))
		took := time.Since(began)
		if !errors.Is(err, io.EOF) || took < least || took > most {
			t.Errorf("ended after %v: %v", took, err)
		}
	}
	t.Run("nothing asked", func(t *testing.T) { ended(stream(t, s), 500*time.Millisecond, 2*time.Second) })
	t.Run("half a query", func(t *testing.T) {
		c := stream(t, s)
		if _, err := c.Conn.Write([]byte{0, 40, 1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		ended(c, 500*time.Millisecond, 2*time.Second)
	})
	t.Run("an answer is awaited", func(t *testing.T) {
		ups[0].Set("slow.test delay 1600ms")
		c := stream(t, s)
		q := query("slow.test.")
		q.Id = 0
		if err := c.WriteMsg(q); err != nil {
			t.Fatal(err)
		}
		answers(t, c, 1)
		ended(c, 0, 2*time.Second)
	})
	t.Run("enough", func(t *testing.T) {
		c := stream(t, s)
		for i := range 4 {
			q := query("held.test.")
			q.Id = uint16(i)
			if err := c.WriteMsg(q); err != nil {
				t.Fatal(err)
			}
		}
		answers(t, c, 3)
		if r, err := c.ReadMsg(); err == nil {
			t.Errorf("a fourth answer: %v", r)
		}
	})
}

// TestDeafClient: one that asks and never reads costs its own connection, which is
// ended, and nobody else anything.
func TestDeafClient(t *testing.T) {
	// Each has some 70,000 answers in the kernel's buffers before anybody waits.
	const deafClients = 3
	_, addrs := upstreams(t, 1)
	s := start(t, "timeouts {\nwrite 1s\nidle 2s\n}\n"+cacheOnly+addrs)
	first := stream(t, s)
	_ = first.Close()
	eventually(t, 3*time.Second, "the connections before are gone", func() bool { return connections(t, s) == 0 })
	before := runtime.NumGoroutine()
	var deaf []net.Conn
	for range deafClients {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		deaf = append(deaf, c)
	}
	packed, err := query("held.test.").Pack()
	if err != nil {
		t.Fatal(err)
	}
	one := append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)
	var lots []byte
	for range 1000 {
		lots = append(lots, one...)
	}
	var asking sync.WaitGroup
	for _, c := range deaf {
		asking.Go(func() {
			_ = c.SetWriteDeadline(time.Now().Add(8 * time.Second))
			for { // until the server has had enough
				if _, err := c.Write(lots); err != nil {
					return
				}
			}
		})
	}
	slowest := time.Duration(0)
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		r, took, err := askOver("tcp", s.addr, "held.test.")
		if b := bad(r, err); b != "" {
			t.Errorf("another client: %s", b)
		}
		slowest = max(slowest, took)
	}
	if n := runtime.NumGoroutine() - before; n > deafClients*(64+4)+200 {
		t.Errorf("%d goroutines more, for %d deaf clients", n, deafClients)
	}
	t.Logf("others waited for %v at most", slowest)
	asking.Wait()
	eventually(t, 20*time.Second, "the deaf clients' connections are gone", func() bool { return connections(t, s) == 0 })
}

// TestDeafClientsOfLongAnswers: those who ask for the longest answers there are,
// many at once, and never read, neither take the memory nor hold up others.
func TestDeafClientsOfLongAnswers(t *testing.T) {
	const deafClients, most = 24, 128 << 20
	ups, addrs := upstreams(t, 1)
	ups[0].Set("long.test records 3500\n* answer 192.0.2.1")
	s := start(t, "timeouts {\nwrite 10s\n}\n"+cacheOnly+addrs)
	_ = stream(t, s)
	for _, name := range []string{"long.test.", "held.test."} {
		if _, _, err := askOver("tcp", s.addr, name); err != nil {
			t.Fatal(err)
		}
	}
	packed, err := query("long.test.").Pack()
	if err != nil {
		t.Fatal(err)
	}
	one := append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range deafClients {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Write(bytes.Repeat(one, 300)); err != nil {
			t.Fatal(err)
		}
	}
	slowest, peak := time.Duration(0), uint64(0)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		r, took, err := ask(s.addr, "held.test.", 4*time.Second)
		if b := bad(r, err); b != "" {
			t.Errorf("another client: %s", b)
		}
		slowest = max(slowest, took)
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapAlloc-min(before.HeapAlloc, now.HeapAlloc))
	}
	if peak > most {
		t.Errorf("%d deaf clients took %d MiB", deafClients, peak>>20)
	}
	if slowest > time.Second && strict() {
		t.Errorf("another client waited for %v", slowest)
	}
	t.Logf("%d MiB at most, and others waited for %v at most", peak>>20, slowest)
}

func askOver(network, addr, name string) (*dns.Msg, time.Duration, error) {
	c := &dns.Client{Net: network, Timeout: 2 * time.Second}
	return c.Exchange(query(name), addr)
}

// TestStreamsThroughReloads: a reload ends no connection and loses no query.
func TestStreamsThroughReloads(t *testing.T) {
	_, addrs := upstreams(t, 1)
	s := start(t, cacheOnly+addrs)
	_ = stream(t, s)
	m := startStreams(t, s.addr, 8)
	for i := range 5 {
		time.Sleep(200 * time.Millisecond)
		s.reload(t, fmt.Sprintf("%s%s\n#%d", cacheOnly, addrs, i))
	}
	time.Sleep(200 * time.Millisecond)
	m.end()
	if m.good.Load() != m.asked.Load() || m.renewed.Load() > 0 {
		t.Errorf("of %d queries %d were answered: %s", m.asked.Load(), m.good.Load(), m)
	}
	t.Logf("%d queries over TCP through 5 reloads", m.asked.Load())
}

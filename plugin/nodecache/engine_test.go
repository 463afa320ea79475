//go:build unix

package nodecache

import (
	"fmt"
	"net/netip"
	"testing"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// testEngine answers for the root from a store of n names, with everything that
// stands ahead of the cache.
func testEngine(t testing.TB, n int, records int, counted, measured bool) (*engine, [][]byte) {
	t.Helper()
	c := &Cache{options: newOptions([]string{"."}), store: newStore(64 << 20)}
	c.options.prefetch = 0
	e := &engine{server: "dns://test:53", metrics: countersOf("dns://test:53"), at: clients.ListenerOf("dns://test:53"), answers: answeredAt("dns://test:53")}
	r := route{zone: []byte{0}, cache: c}
	if counted {
		e.clients = &clients.Process{Table: clients.NewTable(clients.DefaultMax)}
		r.clients, r.drill = true, true
	}
	if measured {
		r.report = newReport("dns://test:53", ".", "errors")
	}
	e.routes = []route{r}
	var packets [][]byte
	for i := range n {
		name := fmt.Sprintf("host%04d.svc%d.bench.example.", i, i%37)
		var rrs []string
		for j := range records {
			rrs = append(rrs, fmt.Sprintf("%s 300 IN A 10.0.0.%d", name, j))
		}
		stored := entryOf(t, answer(t, name, dns.TypeA, rrs...), wide)
		stored.stored, stored.ttl = clients.Now().Mono, 86400
		c.store.put(stored, 0)
		m := new(dns.Msg).SetQuestion(name, dns.TypeA)
		m.SetEdns0(1232, false)
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, b)
	}
	return e, packets
}

func batchOf(n int) *wire.Batch {
	b := &wire.Batch{Packets: make([]wire.Packet, n)}
	for i := range b.Packets {
		b.Packets[i].Buf = make([]byte, wire.MaxAnswer)
		b.Packets[i].Addr = netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
		b.Packets[i].Port = uint16(1000 + i)
	}
	return b
}

func TestEngineDoesNotAllocate(t *testing.T) {
	e, packets := testEngine(t, 100, 2, true, true)
	w, b := e.NewWorker(), batchOf(8)
	at := 0
	n := testing.AllocsPerRun(200, func() {
		for i := range b.Packets {
			p := &b.Packets[i]
			p.Len, p.Verdict = copy(p.Buf, packets[at%len(packets)]), wire.Slow
			at++
		}
		w.Respond(b)
		for i := range b.Packets {
			if b.Packets[i].Verdict != wire.Send {
				t.Fatal("not a hit")
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for 8 hits", n)
	}
}

func BenchmarkHit(b *testing.B) {
	for _, c := range []struct {
		name              string
		records           int
		counted, measured bool
		batch             int
	}{
		{"1A", 1, false, false, 32},
		{"8A", 8, false, false, 32},
		{"1A/clients,drill", 1, true, false, 32},
		{"1A/prometheus", 1, false, true, 32},
		{"1A/clients,drill,prometheus", 1, true, true, 32},
		{"1A/clients,drill,prometheus/alone", 1, true, true, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			e, packets := testEngine(b, 1000, c.records, c.counted, c.measured)
			w, batch := e.NewWorker(), batchOf(c.batch)
			b.ReportAllocs()
			at := 0
			before := processTime(b)
			for n := 0; n < b.N; n += c.batch {
				for i := range batch.Packets {
					p := &batch.Packets[i]
					p.Len, p.Verdict = copy(p.Buf, packets[at]), wire.Slow
					if at++; at == len(packets) {
						at = 0
					}
				}
				w.Respond(batch)
				if batch.Packets[0].Verdict != wire.Send {
					b.Fatal("not a hit")
				}
			}
			// On a machine that is shared this is what counts.
			b.ReportMetric(float64(processTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

func processTime(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

package clients

import (
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// cpuTime has a benchmark report the CPU time of an operation besides the time
// on the clock, which says little on a machine that does other things as well.
func cpuTime(b *testing.B) func() {
	b.Helper()
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	b.ReportAllocs()
	b.ResetTimer()
	began := used()
	return func() { b.ReportMetric(float64(used()-began)/float64(b.N), "cpu-ns/op") }
}

// A query and its answer, with the clock read for each as CoreDNS's chain does
// not: whoever handles a batch reads it once, so it is left out.
func BenchmarkClients(b *testing.B) {
	for _, bc := range []struct {
		name      string
		recording bool
	}{{"idle", false}, {"recording", true}} {
		b.Run(bc.name, func(b *testing.B) {
			table := NewTable(DefaultMax)
			addrs := make([]netip.Addr, DefaultMax)
			for i := range addrs {
				addrs[i] = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			}
			now := Now()
			for _, a := range addrs {
				for range 2 { // admitted at the second query
					table.Query(Query{Addr: a}, now)
				}
			}
			if n := table.Len(); n != DefaultMax {
				b.Fatalf("%d clients are in the table, want %d", n, DefaultMax)
			}
			if bc.recording {
				if _, problem := table.Record("bench", protocol.RecordingOrder{Fleet: "bench", Seconds: 600}, now); problem != nil {
					b.Fatal(problem)
				}
				for range 64 {
					for i, a := range addrs {
						tk := table.Query(Query{Addr: a, Question: uint64(i&31) << 7}, now)
						table.Answered(&tk, 0, false, now)
					}
				}
			}
			var worker atomic.Uint32
			defer cpuTime(b)()
			b.RunParallel(func(pb *testing.PB) {
				i := worker.Add(1) * 7919
				now := now
				for pb.Next() {
					i++
					now.Mono += 10_000 // as if 100,000 a second came
					now.Ms = now.Mono / 1_000_000
					tk := table.Query(Query{Addr: addrs[i%DefaultMax], Port: uint16(i), ID: uint16(i >> 3), Question: uint64(i&31) << 7}, now)
					table.Answered(&tk, 0, false, now)
				}
			})
		})
	}
}

// A flood of addresses that each ask once.
func BenchmarkClientsFlood(b *testing.B) {
	table := NewTable(DefaultMax)
	now := Now()
	defer cpuTime(b)()
	i := uint32(0)
	for b.Loop() {
		i++
		now.Mono += 10_000
		table.Query(Query{Addr: netip.AddrFrom4([4]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}), ID: uint16(i)}, now)
	}
}

// A flood of addresses that each ask twice, so that every second query replaces
// a client.
func BenchmarkClientsReplaced(b *testing.B) {
	table := NewTable(DefaultMax)
	now := Now()
	defer cpuTime(b)()
	i := uint32(0)
	for b.Loop() {
		i++
		now.Mono += 10_000
		now.Ms = now.Mono / 1e6
		j := i / 2
		table.Query(Query{Addr: netip.AddrFrom4([4]byte{byte(j >> 24), byte(j >> 16), byte(j >> 8), byte(j)}), ID: uint16(i)}, now)
	}
}

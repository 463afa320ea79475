package drill

import (
	"net/netip"
	"syscall"
	"testing"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

func benchEngine(b *testing.B) *Engine {
	b.Helper()
	return newEngine(func(clients.Moment) *protocol.RecordingState { return &protocol.RecordingState{Drill: "bench"} },
		func() ([]netip.Prefix, error) { return nil, nil }, func() {})
}

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

// What a drill plugin costs a query while there is no drill.
func BenchmarkDrillIdle(b *testing.B) {
	e := benchEngine(b)
	on := 0
	defer cpuTime(b)()
	for range b.N { // b.Loop would keep the compiler from inlining what is 1 ns
		if e.Running() != nil {
			on++
		}
	}
	if on != 0 {
		b.Fatal("a drill is on")
	}
}

// What a drill costs a query: half of them hit one of 10,000 prefixes.
func BenchmarkDrillRunning10kPrefixes(b *testing.B) {
	e := benchEngine(b)
	o := protocol.Order{ID: "bench", Fleet: "bench", Mode: protocol.ModeDrop, Readiness: protocol.ReadinessPass, DurationSeconds: protocol.MaxDrillSeconds, ProbeToken: "00112233445566778899aabbccddeeff"}
	addrs := make([]netip.Addr, 20_000)
	for i := range addrs {
		addrs[i] = netip.AddrFrom4([4]byte{10, byte(i * 7), byte(i >> 8), byte(i)})
		if i%2 == 0 {
			o.Targets = append(o.Targets, netip.PrefixFrom(addrs[i], 32).String())
		}
	}
	if _, problem := e.Start(o); problem != nil {
		b.Fatal(problem)
	}
	defer e.Remove()
	hits, i := 0, 0
	defer cpuTime(b)()
	for range b.N {
		if r := e.Running(); r != nil && r.Hits(addrs[i]) {
			hits++
		}
		if i++; i == len(addrs) {
			i = 0
		}
	}
	if hits == 0 {
		b.Fatal("nothing was hit")
	}
}

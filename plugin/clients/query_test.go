package clients

import (
	"net/netip"
	"testing"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/miekg/dns"
)

func TestHashQuestion(t *testing.T) {
	wire := []byte("\x07example\x03org\x00")
	want := protocol.QuestionHash(wire, dns.TypeA, dns.ClassINET)
	for _, name := range []string{"example.org.", "EXAMPLE.oRg.", `e\120ample.org.`} {
		if got := HashQuestion(&dns.Question{Name: name, Qtype: dns.TypeA, Qclass: dns.ClassINET}); got != want {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
	}
	if HashQuestion(&dns.Question{Name: "example.org.", Qtype: dns.TypeAAAA, Qclass: dns.ClassINET}) == want {
		t.Error("another type has the same hash")
	}
	longest := make([]byte, 0, 255)
	for range 3 {
		longest = append(longest, "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg."...)
	}
	longest = append(longest, "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffg."...)
	if HashQuestion(&dns.Question{Name: string(longest)}) == HashQuestion(&dns.Question{Name: "."}) {
		t.Error("the longest name counts as the root")
	}
	if n := testing.AllocsPerRun(100, func() {
		HashQuestion(&dns.Question{Name: "example.org.", Qtype: dns.TypeA, Qclass: dns.ClassINET})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNormal(t *testing.T) {
	for in, want := range map[string]string{
		"::ffff:192.0.2.1": "192.0.2.1",
		"fe80::1%eth0":     "fe80::1",
		"192.0.2.1":        "192.0.2.1",
	} {
		if got := Normal(netip.MustParseAddr(in)); got.String() != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
}

func TestIsSelf(t *testing.T) {
	for in, want := range map[string]bool{"127.0.0.1": true, "::1": true, "127.0.0.2": false, "127.0.0.0": false, "::": false, "192.0.2.1": false} {
		if got := IsSelf(netip.MustParseAddr(in)); got != want {
			t.Errorf("%s is the node itself: %v, want %v", in, got, want)
		}
	}
}

func TestLatencyBuckets(t *testing.T) {
	if len(protocol.LatencyBoundsMs) != latencyBuckets-1 {
		t.Fatalf("the protocol has %d bounds, the table %d", len(protocol.LatencyBoundsMs), latencyBuckets-1)
	}
	var c counters
	for _, ms := range []float64{0.01, 0.05, 0.051, 10000, 10001} {
		c.answer(dns.RcodeSuccess, int64(ms*1e6), 1)
	}
	for i, want := range map[int]uint64{0: 2, 1: 1, latencyBuckets - 2: 1, latencyBuckets - 1: 1} {
		if c.latency[i] != want {
			t.Errorf("bucket %d has %d, want %d", i, c.latency[i], want)
		}
	}
}

// Denials are counted over all shards, and are no errors.
func TestDenials(t *testing.T) {
	table := NewTable(MinMax)
	for i, rcode := range []int{dns.RcodeNameError, dns.RcodeSuccess, dns.RcodeNameError, dns.RcodeServerFailure, dns.RcodeRefused} {
		table.shards[i].count.answer(rcode, 1, 1)
	}
	if s := table.Stats(Moment{}); s.NXDomain == nil || *s.NXDomain != 2 || s.ServFail+s.Refused != 2 || s.Answers != 5 {
		t.Errorf("%+v", s)
	}
}

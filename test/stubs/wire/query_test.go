package wire

import (
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
)

var (
	client  = netip.MustParseAddr("198.51.100.1")
	one     = netip.MustParseAddr("192.0.2.1")
	two     = netip.MustParseAddr("192.0.2.2")
	service = netip.MustParseAddr("203.0.113.53")
)

func at(ms int) time.Time { return time.UnixMilli(1_000_000 + int64(ms)) }

func query(ms int, to netip.Addr, port, id uint16) Packet {
	return Packet{At: at(ms), From: netip.AddrPortFrom(client, port), To: netip.AddrPortFrom(to, 53), ID: id, Name: "a.test.", Type: dns.TypeA}
}

func answer(ms int, from netip.Addr, port, id uint16, rcode int) Packet {
	p := query(ms, from, port, id)
	p.From, p.To, p.Answer, p.Rcode = p.To, p.From, true, rcode
	return p
}

func TestQueries(t *testing.T) {
	got := Queries([]Packet{
		query(0, one, 1000, 7),
		query(5000, two, 1001, 7),
		answer(5001, two, 1001, 7, dns.RcodeSuccess),
		query(5000, one, 1000, 7),                      // the same packet again, as glibc sends it
		answer(5002, one, 1000, 7, dns.RcodeRefused),   // belongs to the second copy
		answer(5003, one, 1000, 8, dns.RcodeSuccess),   // to nobody's question
		answer(5004, two, 1001, 7, dns.RcodeNameError), // twice: the first counts
	}, client)
	if len(got) != 3 {
		t.Fatalf("%d queries, not 3: %+v", len(got), got)
	}
	for i, want := range []struct {
		server   netip.Addr
		answered bool
		served   bool
	}{{one, false, false}, {two, true, true}, {one, true, false}} {
		q := got[i]
		if q.Server != want.server || q.Answered.IsZero() == want.answered || q.Served() != want.served {
			t.Errorf("query %d: %+v, served %v; want %+v", i, q, q.Served(), want)
		}
	}
	if !got[1].Answered.Equal(at(5001)) || got[1].Rcode != dns.RcodeSuccess {
		t.Errorf("a second answer replaced the first: %+v", got[1])
	}
}

func TestLocated(t *testing.T) {
	queries := Queries([]Packet{query(0, service, 1000, 7), query(5000, service, 1000, 7), query(6000, one, 1002, 9), query(7000, service, 1003, 1)}, client)
	lost := Located(queries, service, client, []Packet{query(1, two, 1000, 7), query(5001, two, 1000, 7), query(6001, one, 1002, 9)})
	if lost != 1 {
		t.Errorf("%d arrived nowhere, not 1", lost)
	}
	for i, want := range []netip.Addr{two, two, one, service} {
		if queries[i].Server != want {
			t.Errorf("query %d went to %s, not %s", i, queries[i].Server, want)
		}
	}
}

func TestParse(t *testing.T) {
	m := new(dns.Msg).SetQuestion("Mixed.Test.", dns.TypeAAAA)
	payload, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	packet := func(protocol byte, port uint16, cut int) []byte {
		total := 28 + len(payload)
		b := make([]byte, 28, total)
		b[0], b[2], b[3], b[9] = 0x45, byte(total>>8), byte(total), protocol
		copy(b[12:], client.AsSlice())
		copy(b[16:], one.AsSlice())
		b[20], b[21], b[22], b[23] = 0x30, 0x39, byte(port>>8), byte(port)
		return append(b, payload...)[:total-cut]
	}
	p, ok := parse(packet(17, 53, 0))
	if !ok || p.Name != "mixed.test." || p.Type != dns.TypeAAAA || p.From != netip.AddrPortFrom(client, 12345) || p.To.Addr() != one || p.Answer {
		t.Errorf("read as %+v (%v)", p, ok)
	}
	for name, b := range map[string][]byte{
		"TCP": packet(6, 53, 0), "another port": packet(17, 54, 0), "cut": packet(17, 53, 4), "nothing": nil, "IPv6": {0x60},
	} {
		if p, ok := parse(b); ok {
			t.Errorf("%s: read as %+v", name, p)
		}
	}
}

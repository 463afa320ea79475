package wire

import (
	"net/netip"
	"slices"
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
	client6, one6 := netip.MustParseAddr("2001:db8:51::1"), netip.MustParseAddr("2001:db8:2::1")
	ports := func(port uint16) []byte { return []byte{0x30, 0x39, byte(port >> 8), byte(port)} }
	udp := func(port uint16) []byte { return slices.Concat(ports(port), make([]byte, 4), payload) }
	framed := append([]byte{byte(len(payload) >> 8), byte(len(payload))}, payload...)
	tcp := func(data []byte) []byte {
		return slices.Concat(ports(53), make([]byte, 8), []byte{6 << 4}, make([]byte, 11), data) // with an option
	}
	v4 := func(protocol byte, data []byte) []byte {
		b := make([]byte, 20)
		total := len(b) + len(data)
		b[0], b[2], b[3], b[9] = 0x45, byte(total>>8), byte(total), protocol
		copy(b[12:], client.AsSlice())
		copy(b[16:], one.AsSlice())
		return append(b, data...)
	}
	v6 := func(protocol byte, data []byte) []byte {
		b := make([]byte, 40)
		b[0], b[4], b[5], b[6] = 0x60, byte(len(data)>>8), byte(len(data)), protocol
		copy(b[8:], client6.AsSlice())
		copy(b[24:], one6.AsSlice())
		return append(b, data...)
	}
	for name, c := range map[string]struct {
		packet   []byte
		from, to netip.Addr
		messages int
	}{
		"UDP":                           {v4(17, udp(53)), client, one, 1},
		"UDP over IPv6":                 {v6(17, udp(53)), client6, one6, 1},
		"TCP":                           {v4(6, tcp(framed)), client, one, 1},
		"TCP over IPv6":                 {v6(6, tcp(framed)), client6, one6, 1},
		"two questions in one segment":  {v4(6, tcp(slices.Concat(framed, framed))), client, one, 2},
		"a padded frame":                {append(v4(17, udp(53)), 0, 0), client, one, 1},
		"TCP that only opens":           {v4(6, tcp(nil)), client, one, 0},
		"TCP with a message cut in two": {v4(6, tcp(framed[:len(framed)-3])), client, one, 0},
		"another port":                  {v4(17, udp(54)), client, one, 0},
		"another protocol":              {v4(1, udp(53)), client, one, 0},
		"cut":                           {v4(17, udp(53))[:40], client, one, 0},
		"IPv6 that is cut":              {v6(17, udp(53))[:60], client6, one6, 0},
		"nothing":                       {nil, client, one, 0},
		"a header alone":                {[]byte{0x60}, client, one, 0},
		"TCP with a header that lies":   {v4(6, append(ports(53), make([]byte, 17)...)), client, one, 0},
	} {
		got := parse(c.packet)
		if len(got) != c.messages {
			t.Errorf("%s: %d messages, not %d", name, len(got), c.messages)
		}
		for _, p := range got {
			if p.Name != "mixed.test." || p.Type != dns.TypeAAAA || p.From != netip.AddrPortFrom(c.from, 12345) || p.To.Addr() != c.to || p.Answer {
				t.Errorf("%s: read as %+v", name, p)
			}
		}
	}
}

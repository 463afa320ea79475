package nodecache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/miekg/dns"
	"pgregory.net/rapid"
)

func rr(t testing.TB, s string) dns.RR {
	t.Helper()
	r, err := dns.NewRR(s)
	if err != nil || r == nil {
		t.Fatal(s, err)
	}
	return r
}

func keyFor(t testing.TB, name string, qtype uint16, flags uint8) *key {
	t.Helper()
	k := &key{qtype: qtype, flags: flags}
	n, err := dns.PackDomainName(strings.ToLower(name), k.buf[:], 0, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	k.name = k.buf[:n]
	return k
}

// answer makes an answer from its records, as a zone file has them; those that
// begin with ! are authorities, with + additionals.
func answer(t testing.TB, name string, qtype uint16, records ...string) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetQuestion(name, qtype)
	m.Response, m.RecursionAvailable = true, true
	for _, s := range records {
		switch {
		case strings.HasPrefix(s, "!"):
			m.Ns = append(m.Ns, rr(t, s[1:]))
		case strings.HasPrefix(s, "+"):
			m.Extra = append(m.Extra, rr(t, s[1:]))
		default:
			m.Answer = append(m.Answer, rr(t, s))
		}
	}
	return m
}

var wide = &lifetimes{positive: limits{most: 86400}, negative: limits{most: 86400}, failure: 5}

func entryOf(t testing.TB, m *dns.Msg, l *lifetimes) *entry {
	t.Helper()
	q := m.Question[0]
	e, err := newEntry(keyFor(t, q.Name, q.Qtype, 0), q.Name, m, l, 0)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ttls(m *dns.Msg) (out []uint32) {
	for _, s := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, r := range s {
			if r.Header().Rrtype != dns.TypeOPT {
				out = append(out, r.Header().Ttl)
			}
		}
	}
	return out
}

const soa = "!example. 900 IN SOA ns.example. admin.example. 1 3600 600 86400 60"

func TestLifetimes(t *testing.T) {
	narrow := &lifetimes{positive: limits{most: 30, least: 10}, negative: limits{most: 5}, failure: 5}
	for _, c := range []struct {
		what    string
		m       *dns.Msg
		rcode   int
		l       *lifetimes
		kind    kind
		ttl     uint32
		records []uint32
	}{
		{"each its own", answer(t, "a.", dns.TypeA, "a. 3000 CNAME b.", "b. 20 A 192.0.2.1"), 0, wide, positive, 20, []uint32{3000, 20}},
		{"capped both ways", answer(t, "a.", dns.TypeA, "a. 3000 CNAME b.", "b. 2 A 192.0.2.1"), 0, narrow, positive, 10, []uint32{30, 10}},
		{"TTL 0", answer(t, "a.", dns.TypeA, "a. 0 A 192.0.2.1"), 0, wide, unstored, 0, []uint32{0}},
		{"TTL 0 with a least", answer(t, "a.", dns.TypeA, "a. 0 A 192.0.2.1"), 0, narrow, unstored, 0, []uint32{0}},
		{"a TTL with its highest bit", answer(t, "a.", dns.TypeA, "a. 4294967295 A 192.0.2.1"), 0, wide, unstored, 0, nil},
		{"NXDOMAIN: the SOA's minimum", answer(t, "a.example.", dns.TypeA, soa), dns.RcodeNameError, wide, nxdomain, 60, []uint32{60}},
		{"NXDOMAIN: the SOA's TTL", answer(t, "a.example.", dns.TypeA, strings.Replace(soa, "900", "30", 1)), dns.RcodeNameError, wide, nxdomain, 30, []uint32{30}},
		{"NXDOMAIN, capped", answer(t, "a.example.", dns.TypeA, soa), dns.RcodeNameError, narrow, nxdomain, 5, []uint32{5}},
		{"NXDOMAIN without SOA", answer(t, "a.example.", dns.TypeA), dns.RcodeNameError, wide, nxdomain, noSOA, nil},
		{"no data", answer(t, "a.example.", dns.TypeA, soa), 0, wide, nodata, 60, []uint32{60}},
		{"no data behind a CNAME", answer(t, "a.example.", dns.TypeA, "a.example. 40 CNAME b.example.", soa), 0, wide, nodata, 40, []uint32{40, 60}},
		{"a CNAME that goes on elsewhere", answer(t, "a.example.", dns.TypeA, "a.example. 40 CNAME b.example."), 0, wide, positive, 40, []uint32{40}},
		{"a referral", answer(t, "a.example.", dns.TypeA, "!example. 500 NS ns.example."), 0, wide, nodata, noSOA, []uint32{500}},
		{"SERVFAIL", answer(t, "a.example.", dns.TypeA, soa), dns.RcodeServerFailure, wide, failure, 5, nil},
		{"REFUSED", answer(t, "a.example.", dns.TypeA), dns.RcodeRefused, wide, failure, briefly, nil},
		{"NOTIMP", answer(t, "a.example.", dns.TypeA), dns.RcodeNotImplemented, wide, unstored, 0, nil},
		{"a glue record's", answer(t, "a.example.", dns.TypeMX, "a.example. 40 MX 1 m.example.", "+m.example. 7 A 192.0.2.1"), 0, wide, positive, 7, []uint32{40, 7}},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.m.Rcode = c.rcode
			e := entryOf(t, c.m, c.l)
			if e.kind != c.kind || e.ttl != c.ttl {
				t.Errorf("kind %d for %d s, want %d for %d s", e.kind, e.ttl, c.kind, c.ttl)
			}
			m, err := e.message(new(dns.Msg).SetQuestion(c.m.Question[0].Name, c.m.Question[0].Qtype), aging{})
			if err != nil {
				t.Fatal(err)
			}
			if c.records != nil && fmt.Sprint(ttls(m)) != fmt.Sprint(c.records) {
				t.Errorf("TTLs %v, want %v", ttls(m), c.records)
			}
			if m.Rcode != c.rcode {
				t.Errorf("rcode %d", m.Rcode)
			}
		})
	}
}

func TestCountsDown(t *testing.T) {
	e := entryOf(t, answer(t, "a.", dns.TypeA, "a. 3000 CNAME b.", "b. 20 A 192.0.2.1"), wide)
	r := new(dns.Msg).SetQuestion("A.", dns.TypeA)
	r.SetEdns0(4096, true)
	m, err := e.message(r, aging{age: 7})
	if err != nil || fmt.Sprint(ttls(m)) != "[2993 13]" || m.Answer[0].Header().Name != "A." {
		t.Error(err, m)
	}
	m, err = e.message(r, aging{stale: true, ttl: 30})
	if err != nil || fmt.Sprint(ttls(m)) != "[30 30]" || m.IsEdns0().Option[0].(*dns.EDNS0_EDE).InfoCode != dns.ExtendedErrorCodeStaleAnswer {
		t.Error(err, m)
	}
}

func TestKeepsEDE(t *testing.T) {
	m := answer(t, "a.", dns.TypeA, "a. 30 A 192.0.2.1")
	m.SetEdns0(1232, false)
	o := m.IsEdns0()
	o.Option = append(o.Option, &dns.EDNS0_EDE{InfoCode: 15, ExtraText: strings.Repeat("x", 300)}, &dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: "aa"}, &dns.EDNS0_EDE{InfoCode: 4, ExtraText: "why"})
	e := entryOf(t, m, wide)
	r := new(dns.Msg).SetQuestion("a.", dns.TypeA)
	if got, err := e.message(r, aging{}); err != nil || got.IsEdns0() != nil {
		t.Error("a client without EDNS was sent it", err, got)
	}
	r.SetEdns0(1232, false)
	got, err := e.message(r, aging{})
	if err != nil {
		t.Fatal(err)
	}
	options := got.IsEdns0().Option
	if len(options) != 2 || options[0].(*dns.EDNS0_EDE).ExtraText != "" || options[1].(*dns.EDNS0_EDE).ExtraText != "why" {
		t.Error(got)
	}
}

// TestRotates: over all IDs every address comes first, and each time all of them
// are there, in a circle.
func TestRotates(t *testing.T) {
	for _, n := range []int{2, 3, 8, 255} {
		var records []string
		for i := range n {
			records = append(records, fmt.Sprintf("a.example. 30 AAAA 2001:db8::%x", i))
		}
		e := entryOf(t, answer(t, "a.example.", dns.TypeAAAA, records...), wide)
		for id := range n {
			r := new(dns.Msg).SetQuestion("a.example.", dns.TypeAAAA)
			r.Id = uint16(id)
			m, err := e.message(r, aging{})
			if err != nil || len(m.Answer) != n {
				t.Fatal(err, m)
			}
			for i, a := range m.Answer {
				if want := records[(i+id)%n]; a.(*dns.AAAA).AAAA.String() != rr(t, want).(*dns.AAAA).AAAA.String() {
					t.Fatalf("%d of %d, ID %d: %s, want %s", i, n, id, a, want)
				}
			}
		}
	}
	// Behind a CNAME too; of different TTLs not.
	if e := entryOf(t, answer(t, "a.example.", dns.TypeA, "a.example. 30 CNAME b.example.", "b.example. 30 A 192.0.2.1", "b.example. 30 A 192.0.2.2"), wide); e.spinN != 2 {
		t.Error("not behind a CNAME")
	}
	if e := entryOf(t, answer(t, "a.example.", dns.TypeA, "a.example. 30 A 192.0.2.1", "a.example. 31 A 192.0.2.2"), wide); e.spinN != 0 {
		t.Error("although TTLs differ")
	}
}

// TestSameAsTheAnswer: whatever is stored comes back as it was, but for what is to
// change.
func TestSameAsTheAnswer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		label := rapid.StringMatching(`[a-zA-Z0-9]([a-zA-Z0-9-]{0,20}[a-zA-Z0-9])?`)
		name := label.Draw(rt, "label") + "." + label.Draw(rt, "label") + ".example."
		age := uint32(rapid.IntRange(0, 99).Draw(rt, "age"))
		var records []string
		for range rapid.IntRange(1, 12).Draw(rt, "records") {
			ttl := rapid.IntRange(100, 5000).Draw(rt, "ttl")
			owner := rapid.SampledFrom([]string{name, "other.example.", "www." + name}).Draw(rt, "owner")
			section := rapid.SampledFrom([]string{"", "", "!", "+"}).Draw(rt, "section")
			data := rapid.SampledFrom([]string{"TXT hello", "MX 10 mail.example.", "SRV 1 2 3 srv.example.", "NS ns." + name, "CAA 0 issue \"ca.example\"", "HTTPS 1 . alpn=h2", "PTR host." + name}).Draw(rt, "data")
			records = append(records, fmt.Sprintf("%s%s %d IN %s", section, owner, ttl, data))
		}
		want := answer(t, strings.ToLower(name), dns.TypeTXT, append(records, name+" 4000 IN TXT last")...)
		want.AuthenticatedData = rapid.Bool().Draw(rt, "ad")
		e := entryOf(t, want, wide)
		r := new(dns.Msg).SetQuestion(name, dns.TypeTXT)
		r.AuthenticatedData = true
		got, err := e.message(r, aging{age: age})
		if err != nil {
			rt.Fatal(err)
		}
		want.Id, want.Question = r.Id, r.Question
		for _, s := range [][]dns.RR{want.Answer, want.Ns, want.Extra} {
			for _, x := range s {
				x.Header().Ttl -= age
			}
		}
		if !strings.EqualFold(got.String(), want.String()) {
			rt.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func TestTouch(t *testing.T) {
	e := &entry{}
	second := int64(time.Second)
	for i := 1; i <= 300; i++ {
		if got := e.touch(int64(i)*second/10, time.Minute); got != min(i, 255) {
			t.Fatalf("%d times: %d", i, got)
		}
	}
	if got := e.touch(1000*second, time.Minute); got != 1 {
		t.Errorf("after a gap: %d", got)
	}
	if e.used.Load()&0xff != 3 {
		t.Errorf("the eviction's count: %d", e.used.Load()&0xff)
	}
}

// FuzzEntry: any answer that miekg/dns can read can be stored and comes back
// readable, by both ways the same.
func FuzzEntry(f *testing.F) {
	for _, m := range []*dns.Msg{answer(f, "a.example.", dns.TypeA, "a.example. 30 A 192.0.2.1", "a.example. 30 A 192.0.2.2"), answer(f, "a.example.", dns.TypeA, soa), answer(f, ".", dns.TypeNS, ". 5 NS a.root.")} {
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := new(dns.Msg)
		if m.Unpack(b) != nil || len(m.Question) != 1 || !wire.IsData(m.Question[0].Qtype) || m.Question[0].Qclass != dns.ClassINET || m.Rcode > 15 {
			return
		}
		m.Response = true
		q := m.Question[0]
		k := &key{qtype: q.Qtype}
		n, err := dns.PackDomainName(q.Name, k.buf[:], 0, nil, false)
		if err != nil {
			return
		}
		wire.Lower(k.buf[:n])
		k.name = k.buf[:n]
		up := upstreamQuestion(k)
		e, err := newEntry(k, up.Question[0].Name, m, wide, 0)
		if err != nil {
			return
		}
		if e.ttl > 86400 {
			t.Fatalf("fresh for %d s", e.ttl)
		}
		r := new(dns.Msg).SetQuestion(q.Name, q.Qtype)
		got, err := e.message(r, aging{age: min(e.ttl, 1)})
		if err != nil {
			t.Fatalf("%v: %x", err, b)
		}
		packet, err := r.Pack()
		if err != nil {
			t.Fatal(err)
		}
		var parsed wire.Query
		if !parsed.Parse(packet) {
			return
		}
		room := e.room(&parsed, aging{})
		buf := make([]byte, max(room, len(packet)))
		copy(buf, packet)
		if n := e.put(buf, &parsed, 0, aging{age: min(e.ttl, 1)}); n != room {
			t.Fatalf("%d bytes where room was %d", n, room)
		}
		again := new(dns.Msg)
		if err := again.Unpack(buf[:room]); err != nil {
			t.Fatalf("%v: %x", err, buf)
		}
		again.Truncated = got.Truncated
		if again.String() != got.String() {
			t.Fatalf("one way\n%s\nthe other\n%s", got, again)
		}
	})
}

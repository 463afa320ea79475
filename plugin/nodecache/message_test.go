package nodecache

import (
	"fmt"
	"net/netip"
	"testing"

	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/miekg/dns"
	"pgregory.net/rapid"
)

// What is made of addresses by hand is what would be read.
func TestAddressesAreAsRead(t *testing.T) {
	byHand := 0
	rapid.Check(t, func(rt *rapid.T) {
		qtype := rapid.SampledFrom([]uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT}).Draw(rt, "type")
		name := rapid.SampledFrom([]string{"a.example.", "MiXed.Example.", `e\.scaped.example.`, "."}).Draw(rt, "name")
		var records []string
		if rapid.IntRange(0, 4).Draw(rt, "alias") == 0 {
			records = append(records, name+" 60 IN CNAME other.example.")
		}
		for range rapid.IntRange(0, 5).Draw(rt, "records") {
			ttl := rapid.IntRange(20, 600).Draw(rt, "ttl")
			last := rapid.Byte().Draw(rt, "last")
			switch qtype {
			case dns.TypeA:
				records = append(records, fmt.Sprintf("%s %d IN A 192.0.2.%d", name, ttl, last))
			case dns.TypeAAAA:
				records = append(records, fmt.Sprintf("%s %d IN AAAA %s", name, ttl, netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: last})))
			default:
				records = append(records, fmt.Sprintf("%s %d IN TXT %d", name, ttl, last))
			}
		}
		if rapid.IntRange(0, 4).Draw(rt, "more") == 0 {
			records = append(records, "!example. 60 IN NS ns.example.")
		}
		e := entryOf(t, answer(t, name, qtype, records...), wide)
		r := new(dns.Msg).SetQuestion(name, qtype)
		r.Id = rapid.Uint16().Draw(rt, "id")
		r.CheckingDisabled = rapid.Bool().Draw(rt, "cd")
		if rapid.Bool().Draw(rt, "edns") {
			r.SetEdns0(1232, rapid.Bool().Draw(rt, "do"))
		}
		a := aging{age: rapid.Uint32Range(0, 20).Draw(rt, "age")}
		if rapid.Bool().Draw(rt, "stale") {
			a = aging{stale: true, ttl: 30}
		}
		got, err := e.message(r, a)
		if err != nil {
			rt.Fatal(err)
		}
		if e.addresses(new(dns.Msg), r, a) {
			byHand++
		}
		q := wire.Query{ID: r.Id, Type: qtype, CD: r.CheckingDisabled}
		if o := r.IsEdns0(); o != nil {
			q.EDNS, q.DO, q.Size = true, o.Do(), o.UDPSize()
		}
		want := new(dns.Msg)
		if err := e.unpack(want, r, &q, a, nil); err != nil {
			rt.Fatal(err)
		}
		if got.String() != want.String() {
			rt.Fatalf("made by hand:\n%s\nas read:\n%s", got, want)
		}
		for i, rr := range got.Answer {
			if rr.Header().Rdlength != want.Answer[i].Header().Rdlength {
				rt.Fatalf("RDATA of %v is %d long", rr, rr.Header().Rdlength)
			}
		}
	})
	if byHand == 0 {
		t.Error("no answer was made by hand")
	}
}

func BenchmarkMessage(b *testing.B) {
	e := entryOf(b, answer(b, "a.example.", dns.TypeA, "a.example. 60 IN A 192.0.2.1"), wide)
	r := new(dns.Msg).SetQuestion("a.example.", dns.TypeA)
	r.SetEdns0(1232, false)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.message(r, aging{age: 1}); err != nil {
			b.Fatal(err)
		}
	}
}

package upstream

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// honest is what is done where the script says nothing.
var honest = &rule{ttl: 30}

// serve does with one query what the script says. write sends an answer, from
// another port if it is to; hangUp closes the connection, where there is one.
func (s *Server) serve(packet []byte, over string, from netip.AddrPort, done <-chan struct{}, write func(out []byte, elsewhere bool), hangUp func()) {
	m := new(dns.Msg)
	if err := m.Unpack(packet); err != nil || len(m.Question) != 1 || m.Response {
		s.log.odd()
		return
	}
	q := m.Question[0]
	r := s.script.Load().find(q, over)
	if r == nil {
		r = honest
	}
	s.log.add(Query{At: time.Now(), Name: q.Name, Type: q.Qtype, ID: m.Id, Over: over, From: from})

	wait := r.delay[0]
	if d := r.delay[1] - r.delay[0]; d > 0 {
		wait += rand.N(d)
	}
	if r.limit != nil {
		queued, ok := r.limit.wait(time.Now())
		if !ok {
			return
		}
		wait += queued
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-done:
			return
		}
	}
	switch {
	case r.closes:
		if hangUp != nil {
			hangUp()
		}
		return
	case r.drop, r.loss > 0 && rand.Float64() < r.loss:
		return
	}
	out := r.answer(m, over, s.log.count())
	wire, err := out.Pack()
	if err != nil {
		panic(fmt.Sprintf("upstream: %v", err)) // a script with a record that cannot be
	}
	if r.spoof {
		false1 := append([]byte(nil), wire...)
		false1[0] ^= 0x55
		write(false1, false)
	}
	if r.wrongID {
		wire[1] ^= 0x55
	}
	if r.garbage {
		end := 12 + len(q.Name) + 1 + 4
		wire = append(wire[:min(end, len(wire))], make([]byte, 40)...)
		for i := end; i < len(wire); i++ {
			wire[i] = byte(rand.Uint32()) | 0x80
		}
		wire[7] = 1 // an answer is announced
	}
	s.log.answered()
	write(wire, r.elsewhere)
}

// answer is what the rule answers with.
func (r *rule) answer(m *dns.Msg, over string, n uint64) *dns.Msg {
	out := new(dns.Msg)
	out.SetRcode(m, r.rcode)
	out.RecursionAvailable = true
	out.Compress = true
	q := m.Question[0]
	size := uint16(dns.MinMsgSize)
	if opt := m.IsEdns0(); opt != nil {
		size = opt.UDPSize()
		out.SetEdns0(1232, opt.Do())
	}
	if r.wrongName {
		out.Question = []dns.Question{{Name: "wrong." + strings.TrimPrefix(q.Name, "."), Qtype: q.Qtype, Qclass: q.Qclass}}
	}
	if r.noQuestion {
		out.Question = nil
	}
	if r.truncate && over == "udp" {
		out.Truncated = true
		return out
	}
	if r.rcode == dns.RcodeSuccess && !r.nodata {
		r.fill(out, q, n)
	}
	if len(out.Answer) == 0 && (r.rcode == dns.RcodeSuccess || r.rcode == dns.RcodeNameError) {
		out.Ns = []dns.RR{soa(parent(q.Name), r.ttl)}
	}
	if over == "udp" {
		out.Truncate(int(max(size, dns.MinMsgSize)))
	}
	return out
}

func (r *rule) fill(out *dns.Msg, q dns.Question, n uint64) {
	if len(r.rrs) > 0 {
		out.Answer = r.rrs
		return
	}
	header := func(t uint16) dns.RR_Header {
		return dns.RR_Header{Name: q.Name, Rrtype: t, Class: dns.ClassINET, Ttl: r.ttl}
	}
	addrs := r.addrs
	switch {
	case r.change:
		addrs = []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + n%250)})}
	case r.records > 0:
		for i := range r.records {
			addrs = append(addrs, netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}))
		}
	case len(addrs) == 0:
		addrs = []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, 1})}
	}
	switch q.Qtype {
	case dns.TypeSOA:
		out.Answer = []dns.RR{soa(q.Name, r.ttl)}
	case dns.TypeNS:
		out.Answer = []dns.RR{&dns.NS{Hdr: header(dns.TypeNS), Ns: "ns.test."}}
	}
	for _, a := range addrs {
		switch {
		case q.Qtype == dns.TypeA && a.Is4():
			out.Answer = append(out.Answer, &dns.A{Hdr: header(dns.TypeA), A: a.AsSlice()})
		case q.Qtype == dns.TypeAAAA && a.Is6():
			out.Answer = append(out.Answer, &dns.AAAA{Hdr: header(dns.TypeAAAA), AAAA: a.AsSlice()})
		}
	}
}

func parent(name string) string {
	if i, end := dns.NextLabel(name, 0); !end {
		return name[i:]
	}
	return "."
}

func soa(name string, ttl uint32) dns.RR {
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
		Ns:  "ns.test.", Mbox: "hostmaster.test.", Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: 30,
	}
}

package hedge

import (
	"github.com/miekg/dns"
)

// ednsSize is the longest datagram that we take: it is not fragmented anywhere
// (DNS flag day 2020).
const ednsSize = 1232

// askable says whether a query can be asked of an upstream, or the code to answer
// with.
func askable(r *dns.Msg) (rcode int, ok bool) {
	switch {
	case r.Opcode != dns.OpcodeQuery:
		return dns.RcodeNotImplemented, false
	case len(r.Question) != 1:
		return dns.RcodeFormatError, false
	case r.Question[0].Qtype == dns.TypeAXFR, r.Question[0].Qtype == dns.TypeIXFR:
		return dns.RcodeNotImplemented, false // a transfer is more than an answer
	}
	return 0, true
}

// upstreamQuery is what is asked of an upstream for the client's query. What is
// between two servers is not handed on: the size (RFC 6891, 6.2.3), cookies (RFC
// 7873), keepalive (RFC 7828), padding (RFC 7830), TSIG.
func upstreamQuery(r *dns.Msg) *dns.Msg {
	m := &dns.Msg{MsgHdr: dns.MsgHdr{
		Opcode:            dns.OpcodeQuery,
		RecursionDesired:  r.RecursionDesired,
		CheckingDisabled:  r.CheckingDisabled,
		AuthenticatedData: r.AuthenticatedData,
	}, Question: r.Question}
	if opt := r.IsEdns0(); opt != nil {
		own := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		own.SetUDPSize(ednsSize)
		if opt.Do() {
			own.SetDo()
		}
		own.Option = endToEnd(opt.Option)
		m.Extra = []dns.RR{own}
	}
	return m
}

// endToEnd are the options that are not between two servers alone. The list is
// left as it is.
func endToEnd(options []dns.EDNS0) (kept []dns.EDNS0) {
	for _, o := range options {
		switch o.Option() {
		case dns.EDNS0COOKIE, dns.EDNS0TCPKEEPALIVE, dns.EDNS0PADDING:
		default:
			kept = append(kept, o)
		}
	}
	return kept
}

// clientAnswer makes an upstream's answer one to r. m is changed.
func clientAnswer(m, r *dns.Msg) *dns.Msg {
	m.Id = r.Id
	m.Question = r.Question // in the client's spelling
	m.Compress = true
	wants := r.IsEdns0() != nil
	kept := m.Extra[:0]
	for _, rr := range m.Extra {
		switch rr := rr.(type) {
		case *dns.OPT:
			if !wants {
				continue // RFC 6891, 7
			}
			rr.SetUDPSize(ednsSize)
			rr.Option = endToEnd(rr.Option)
		case *dns.TSIG:
			continue
		}
		kept = append(kept, rr)
	}
	m.Extra = kept
	return m
}

// failure is an answer that says why there is none (RFC 8914), where the client
// can read it.
func failure(r *dns.Msg, rcode int, code uint16, text string) *dns.Msg {
	m := new(dns.Msg).SetRcode(r, rcode)
	m.RecursionAvailable = true
	if opt := r.IsEdns0(); opt != nil {
		m.SetEdns0(ednsSize, opt.Do())
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: code, ExtraText: text}}
	}
	return m
}

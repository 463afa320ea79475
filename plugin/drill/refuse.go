package drill

import "github.com/miekg/dns"

// refusal is the answer to a drilled query: REFUSED, and where the client speaks
// EDNS why, so that whoever debugs a client is told (RFC 8914, 4.15).
func refusal(r *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetRcode(r, dns.RcodeRefused)
	if o := r.IsEdns0(); o != nil {
		m.SetEdns0(o.UDPSize(), o.Do())
		opt := m.IsEdns0()
		opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeNotReady, ExtraText: "failover drill"})
	}
	return m
}

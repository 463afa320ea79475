package drill

import (
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/miekg/dns"
)

// tokenLength is that of an order's ProbeToken, in bytes.
const tokenLength = 16

// isProbe says whether the query is a probe of the drill's controller.
func isProbe(r *Running, m *dns.Msg) bool {
	opt := m.IsEdns0()
	if opt == nil {
		return false
	}
	for _, o := range opt.Option {
		if local, ok := o.(*dns.EDNS0_LOCAL); ok && local.Code == protocol.ProbeOption && r.Probe(local.Data) {
			return true
		}
	}
	return false
}

// withoutToken is a copy of a probe as an ordinary client would have sent it: the
// token is not for whoever is asked next.
func withoutToken(m *dns.Msg) *dns.Msg {
	m = m.Copy()
	opt := m.IsEdns0()
	left := opt.Option[:0]
	for _, o := range opt.Option {
		if o.Option() != protocol.ProbeOption {
			left = append(left, o)
		}
	}
	opt.Option = left
	return m
}

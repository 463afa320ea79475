package clients

import (
	"crypto/rand"
	"crypto/subtle"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/miekg/dns"
)

// mark is what a controller's own probes carry, so that they do not count as a
// client's. It is new with every process and told at the control endpoint alone:
// to ask uncounted, one has to be allowed to call there, or to read the network
// between the two. It frees nobody from a drill (that takes the drill's token).
type mark [protocol.ProbeMarkLength]byte

func newMark() (m mark) {
	_, _ = rand.Read(m[:]) // never fails
	return m
}

// on says whether the query carries the mark.
func (m *mark) on(q *dns.Msg) bool {
	opt := q.IsEdns0()
	if opt == nil {
		return false
	}
	for _, o := range opt.Option {
		if m.is(o) {
			return true
		}
	}
	return false
}

func (m *mark) is(o dns.EDNS0) bool {
	local, ok := o.(*dns.EDNS0_LOCAL)
	return ok && local.Code == protocol.ProbeOption && subtle.ConstantTimeCompare(local.Data, m[:]) == 1
}

// off is a copy of the query without the mark: it is not for whoever is asked
// next.
func (m *mark) off(q *dns.Msg) *dns.Msg {
	q = q.Copy()
	opt := q.IsEdns0()
	left := opt.Option[:0]
	for _, o := range opt.Option {
		if !m.is(o) {
			left = append(left, o)
		}
	}
	opt.Option = left
	return q
}

package resolvers

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/miekg/dns"
)

// query is a question in wire form: it is sent again byte for byte, with the
// same ID, as stub resolvers do.
type query struct {
	id       uint16
	question dns.Question
	wire     []byte
}

// queries for both address types of a name.
func queries(name string) ([]*query, error) {
	var all []*query
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		m := new(dns.Msg)
		m.SetQuestion(dns.Fqdn(name), qtype)
		wire, err := m.Pack()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, &query{id: m.Id, question: m.Question[0], wire: wire})
	}
	return all, nil
}

// verdict on what arrived.
type verdict int

const (
	foreign verdict = iota // not an answer to the question
	usable                 // NOERROR or NXDOMAIN
	useless                // an error: ask elsewhere, if there is anybody
)

func (q *query) judge(packet []byte) verdict {
	m := new(dns.Msg)
	if m.Unpack(packet) != nil || !m.Response || m.Id != q.id || len(m.Question) != 1 || m.Question[0] != q.question {
		return foreign
	}
	if m.Rcode == dns.RcodeSuccess || m.Rcode == dns.RcodeNameError {
		return usable
	}
	return useless
}

// socket is a UDP socket at the client's address, on a port that the kernel picks.
func socket(local netip.Addr) (*net.UDPConn, error) {
	return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
}

// connected is one that only hears one server, and learns at once when nobody
// listens there.
func connected(local netip.Addr, server netip.AddrPort) (*net.UDPConn, error) {
	return net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)), net.UDPAddrFromAddrPort(server))
}

// packetSize is above what anybody sends without EDNS.
const packetSize = 4096

package wire

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Packet is one DNS message over UDP.
type Packet struct {
	At       time.Time
	From, To netip.AddrPort
	Answer   bool // else a query
	ID       uint16
	Rcode    int
	Name     string // lower case, as clients may mix it on purpose
	Type     uint16
}

const (
	protocolUDP = 17
	portDNS     = 53
)

// parse reads an IPv4 packet; ok is false for anything but DNS over UDP.
func parse(b []byte) (p Packet, ok bool) {
	if len(b) < 20 || b[0]>>4 != 4 || b[9] != protocolUDP {
		return p, false
	}
	header, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
	if header < 20 || total > len(b) || total < header+8 {
		return p, false
	}
	udp := b[header:total]
	from, _ := netip.AddrFromSlice(b[12:16])
	to, _ := netip.AddrFromSlice(b[16:20])
	p.From = netip.AddrPortFrom(from, binary.BigEndian.Uint16(udp))
	p.To = netip.AddrPortFrom(to, binary.BigEndian.Uint16(udp[2:]))
	if p.From.Port() != portDNS && p.To.Port() != portDNS {
		return p, false
	}
	var m dns.Msg
	if m.Unpack(udp[8:]) != nil || len(m.Question) != 1 {
		return p, false
	}
	p.Answer, p.ID, p.Rcode = m.Response, m.Id, m.Rcode
	p.Name, p.Type = strings.ToLower(m.Question[0].Name), m.Question[0].Qtype
	return p, true
}

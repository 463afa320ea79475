package wire

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Packet is one DNS message, over UDP or TCP.
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
	protocolTCP = 6
	protocolUDP = 17
	portDNS     = 53
)

// parse reads an IP packet: the DNS messages in it, none where it is something else.
// Over TCP a segment can hold several, and a message that does not begin and end in
// one segment is passed over: those of stubs and of the lab's servers do.
func parse(b []byte) []Packet {
	from, to, protocol, data, ok := network(b)
	if !ok {
		return nil
	}
	var messages [][]byte
	switch {
	case protocol == protocolUDP && len(data) >= 8:
		messages = append(messages, data[8:])
	case protocol == protocolTCP && len(data) >= 20:
		messages = framed(data[min(int(data[12]>>4)*4, len(data)):])
	default:
		return nil
	}
	p := Packet{From: netip.AddrPortFrom(from, binary.BigEndian.Uint16(data)), To: netip.AddrPortFrom(to, binary.BigEndian.Uint16(data[2:]))}
	if p.From.Port() != portDNS && p.To.Port() != portDNS {
		return nil
	}
	var out []Packet
	for _, message := range messages {
		var m dns.Msg
		if m.Unpack(message) != nil || len(m.Question) != 1 {
			continue
		}
		p.Answer, p.ID, p.Rcode = m.Response, m.Id, m.Rcode
		p.Name, p.Type = strings.ToLower(m.Question[0].Name), m.Question[0].Qtype
		out = append(out, p)
	}
	return out
}

// network reads the header of IPv4 or IPv6, the latter without extensions: DNS has
// none.
func network(b []byte) (from, to netip.Addr, protocol byte, data []byte, ok bool) {
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		header, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
		if header < 20 || total > len(b) || total < header {
			return from, to, 0, nil, false
		}
		from, _ = netip.AddrFromSlice(b[12:16])
		to, _ = netip.AddrFromSlice(b[16:20])
		return from, to, b[9], b[header:total], true
	case len(b) >= 40 && b[0]>>4 == 6:
		total := 40 + int(binary.BigEndian.Uint16(b[4:]))
		if total > len(b) {
			return from, to, 0, nil, false
		}
		from, _ = netip.AddrFromSlice(b[8:24])
		to, _ = netip.AddrFromSlice(b[24:40])
		return from, to, b[6], b[40:total], true
	}
	return from, to, 0, nil, false
}

// framed are the messages of a segment, each behind its length.
func framed(b []byte) (messages [][]byte) {
	for len(b) >= 2 {
		n := int(binary.BigEndian.Uint16(b))
		if len(b)-2 < n {
			break
		}
		messages = append(messages, b[2:2+n])
		b = b[2+n:]
	}
	return messages
}

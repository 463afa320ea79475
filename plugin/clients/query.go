package clients

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/miekg/dns"
)

// Query is a question as it arrived, reduced to what is counted. It can be
// filled from a packet without a parsed message.
type Query struct {
	Addr     netip.Addr // the client; see Normal
	Port     uint16
	ID       uint16 // of the DNS header
	Stream   bool   // it came over a connection: anything but plain UDP
	Question uint64 // protocol.QuestionHash
}

// Ticket is one query between its arrival and its end. It is for the one
// goroutine that handles the query. The zero Ticket is of nobody: what is
// reported on it counts nowhere.
type Ticket struct {
	addr     addrKey
	hash     uint64 // of addr
	question uint64
	began    int64 // Moment.Mono
	slotTag  uint64
	slot     uint32
	entry    uint32 // in the seen table; 0: not in it
	gen      uint32
	state    ticketState
	retry    bool
	resent   bool // the very packet was there before
}

type ticketState uint8

const (
	ticketNone     ticketState = iota // infrastructure, a controller's probe, or the zero ticket
	ticketOpen                        // nothing was sent yet
	ticketAnswered                    // the first answer was
	ticketDrilled                     // a drill took it
)

// Retry says whether the query repeats one that its client has asked within
// the last 6 seconds, as the package comment defines it.
func (t *Ticket) Retry() bool { return t.retry }

// Counted says whether the query is a client's, and not infrastructure's.
func (t *Ticket) Counted() bool { return t.state != ticketNone }

// Normal is a as the table knows it: IPv4 in IPv6 is IPv4, and there is no zone.
func Normal(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// IsSelf says whether a is the node itself: 127.0.0.1 or ::1. The rest of
// 127.0.0.0/8 are clients like any other.
func IsSelf(a netip.Addr) bool {
	return a == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || a == netip.IPv6Loopback()
}

// HashQuestion is protocol.QuestionHash of a parsed question. A name that does
// not fit the wire form (which no parsed message holds) counts as the root.
func HashQuestion(q *dns.Question) uint64 {
	var wire [256]byte
	n, err := dns.PackDomainName(q.Name, wire[:], 0, nil, false)
	if err != nil {
		wire[0], n = 0, 1
	}
	// Lengths are below 64 and so below 'A': all bytes can be treated alike.
	for i, b := range wire[:n] {
		if 'A' <= b && b <= 'Z' {
			wire[i] = b + ('a' - 'A')
		}
	}
	return protocol.QuestionHash(wire[:n], q.Qtype, q.Qclass)
}

// addrKey is an address in 16 bytes, IPv4 as IPv4 in IPv6.
type addrKey struct{ hi, lo uint64 }

func keyOf(a netip.Addr) addrKey {
	b := a.As16()
	return addrKey{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (k addrKey) addr() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.hi)
	binary.BigEndian.PutUint64(b[8:], k.lo)
	return netip.AddrFrom16(b).Unmap()
}

// seed makes the table's hashes unforeseeable: who asks may choose the address.
type seed [4]uint64

func (s *seed) addr(k addrKey) uint64 {
	return fold(fold(k.hi^s[0], k.lo^s[1])^s[2], s[3])
}

func (s *seed) pair(h, question uint64) uint64 { return fold(h^s[1], question^s[2]) }

// packet tells the packets of a question apart.
func (s *seed) packet(port, id uint16) uint16 {
	return uint16(fold(s[3], s[0]^(uint64(port)<<16|uint64(id)))) // #nosec G115 -- meant to be cut
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

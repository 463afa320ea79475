package wire

import "encoding/binary"

// HeaderLen is the length of a DNS header (RFC 1035, 4.1.1).
const HeaderLen = 12

const (
	maxName   = 255 // bytes of a name (RFC 1035, 3.1)
	maxLabels = 128 // of a name, the root's included

	optFixed     = 11 // bytes of an OPT record without its options (RFC 6891, 6.1.2)
	optionCookie = 10 // RFC 7873
)

// Bits of the header's third and fourth byte.
const (
	bitQR = 0x80
	bitAA = 0x04
	bitTC = 0x02
	bitRD = 0x01

	bitRA = 0x80
	bitAD = 0x20
	bitCD = 0x10
)

// Query is one plain question. Its memory is used again by the next Parse.
type Query struct {
	ID   uint16
	Type uint16
	End  int  // of the question in the packet
	AD   bool // the client understands AD (RFC 6840, 5.7)
	CD   bool
	EDNS bool   // there is an OPT record
	DO   bool   // RFC 3225
	Size uint16 // the client's UDP size as it sent it; 0 without OPT

	nameLen int
	labels  int
	starts  [maxLabels]uint8 // of the labels, in the name
	name    [maxName + 1]byte
}

// Parse reads a packet as a plain question: a query with RD and nothing unusual
// in its header, one question of class IN for a type that holds data, and at
// most an OPT record of version 0 with no option but a cookie, which CoreDNS
// ignores. It says false to all else, and that includes all that is malformed:
// such a packet is for a parser that can say what is wrong. It does not allocate
// and never reads beyond the packet.
func (q *Query) Parse(pkt []byte) bool {
	if len(pkt) < HeaderLen+5 { // a root name, a type, a class
		return false
	}
	h := (*[HeaderLen]byte)(pkt)
	// QR, opcode, AA, TC 0 and RD 1; RA, Z and rcode 0.
	if h[2] != bitRD || h[3]&^(bitAD|bitCD) != 0 {
		return false
	}
	// QDCOUNT 1, ANCOUNT 0, NSCOUNT 0, ARCOUNT 0 or 1.
	if binary.BigEndian.Uint64(h[4:])&^1 != 1<<48 {
		return false
	}
	if !q.parseName(pkt) {
		return false
	}
	end := HeaderLen + q.nameLen + 4
	if end > len(pkt) {
		return false
	}
	q.Type = binary.BigEndian.Uint16(pkt[end-4:])
	if binary.BigEndian.Uint16(pkt[end-2:]) != 1 || !IsData(q.Type) {
		return false
	}
	q.ID = binary.BigEndian.Uint16(h[0:])
	q.AD, q.CD = h[3]&bitAD != 0, h[3]&bitCD != 0
	q.End = end
	q.EDNS, q.DO, q.Size = false, false, 0
	if h[11] == 0 {
		return end == len(pkt)
	}
	return q.parseOPT(pkt[end:])
}

// parseName reads the name at the start of the question and keeps it in lower
// case. A compression pointer is unusual here: nobody sends one.
func (q *Query) parseName(pkt []byte) bool {
	off, n := HeaderLen, 0
	for {
		if off >= len(pkt) || n == maxLabels {
			return false
		}
		l := int(pkt[off])
		if l > 63 {
			return false
		}
		q.starts[n] = uint8(off - HeaderLen) // #nosec G115 -- bounded below
		n++
		off += 1 + l
		if off-HeaderLen > maxName {
			return false
		}
		if l == 0 {
			break
		}
	}
	if off > len(pkt) {
		return false
	}
	q.labels = n
	q.nameLen = off - HeaderLen
	copy(q.name[:q.nameLen], pkt[HeaderLen:off])
	Lower(q.name[:q.nameLen])
	return true
}

// IsData says whether a type is one of records and not of questions or of the
// protocol itself: 0, OPT and RFC 6895's 128 to 255.
func IsData(t uint16) bool { return t != 0 && t != 41 && (t < 128 || t > 255) }

// parseOPT reads the additional section, which must be one OPT record.
func (q *Query) parseOPT(o []byte) bool {
	if len(o) < optFixed || o[0] != 0 || o[1] != 0 || o[2] != 41 {
		return false
	}
	// Extended rcode and version 0, and of the flags at most DO.
	if o[5] != 0 || o[6] != 0 || o[7]&0x7f != 0 || o[8] != 0 {
		return false
	}
	if len(o) != optFixed+int(binary.BigEndian.Uint16(o[9:])) {
		return false
	}
	for p := o[optFixed:]; len(p) > 0; {
		if len(p) < 4 || binary.BigEndian.Uint16(p) != optionCookie {
			return false
		}
		l := int(binary.BigEndian.Uint16(p[2:]))
		if len(p) < 4+l {
			return false
		}
		p = p[4+l:]
	}
	q.EDNS, q.DO = true, o[7]&0x80 != 0
	q.Size = binary.BigEndian.Uint16(o[3:])
	return true
}

// Name is the name asked for, in wire form and lower case, valid until the next
// Parse.
func (q *Query) Name() []byte { return q.name[:q.nameLen] }

// Labels is the number of labels of the name, without the root's.
func (q *Query) Labels() int { return q.labels - 1 }

// Suffix is the name without its first i labels; of all of them, it is the root.
func (q *Query) Suffix(i int) []byte { return q.name[q.starts[i]:q.nameLen] }

// Within says whether the name is zone or below it. zone is in wire form and
// lower case.
func (q *Query) Within(zone []byte) bool {
	at := q.nameLen - len(zone)
	if at < 0 || string(q.name[at:q.nameLen]) != string(zone) {
		return false
	}
	// What looks like the zone's labels may be the inside of a longer one.
	for i := q.labels - 1; i >= 0; i-- {
		if s := int(q.starts[i]); s <= at {
			return s == at
		}
	}
	return false
}

// Limit is how long an answer over UDP may be, as CoreDNS has it: what the
// client says, and never below 512 (RFC 6891, 6.2.5).
func (q *Query) Limit() int { return max(int(q.Size), 512) }

package exchange

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"

	"github.com/miekg/dns"
)

const headerSize = 12

// Query is a question ready to be sent, many times and to many.
type Query struct {
	packet []byte
	end    int // of the question section
}

// NewQuery packs m, which has one question. Its ID does not matter.
func NewQuery(m *dns.Msg) (*Query, error) {
	if len(m.Question) != 1 {
		return nil, errors.New("a query has one question")
	}
	packet, err := m.Pack()
	if err != nil {
		return nil, err
	}
	end, ok := questionEnd(packet)
	if !ok {
		return nil, errors.New("a query has one question")
	}
	return &Query{packet: packet, end: end}, nil
}

// randomID is one that cannot be guessed: rand/v2's global source is a ChaCha8
// seeded by the system, for each thread.
func randomID() uint16 { return uint16(rand.Uint32()) }

// appendTo appends the query with an ID.
func (q *Query) appendTo(b []byte, id uint16) []byte {
	at := len(b)
	b = append(b, q.packet...)
	binary.BigEndian.PutUint16(b[at:], id)
	return b
}

// answeredBy says whether b, whose ID is right, is an answer to the query: a
// response with the same question, whatever its spelling.
func (q *Query) answeredBy(b []byte) bool {
	if len(b) < q.end || b[2]&0x80 == 0 || b[2]&0x78 != q.packet[2]&0x78 || binary.BigEndian.Uint16(b[4:]) != 1 {
		return false
	}
	for i := headerSize; i < q.end; i++ {
		if b[i] != q.packet[i] && lower(b[i]) != lower(q.packet[i]) {
			return false
		}
	}
	return true
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b | 0x20
	}
	return b
}

// questionEnd is where the first question ends. In a question of our own no name
// is compressed.
func questionEnd(b []byte) (int, bool) {
	for i := headerSize; i < len(b); {
		n := int(b[i])
		if n == 0 {
			return i + 5, i+5 <= len(b)
		}
		if n > 63 {
			return 0, false
		}
		i += n + 1
	}
	return 0, false
}

// idOf is the ID of a packet that has one.
func idOf(b []byte) (uint16, bool) {
	if len(b) < headerSize {
		return 0, false
	}
	return binary.BigEndian.Uint16(b), true
}

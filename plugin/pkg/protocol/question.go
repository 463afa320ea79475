package protocol

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// QuestionHash is the hash under which a question stands in recordings: xxHash
// (64 bit) over the name in wire form, lower case, then type and class, each in
// network order. It is the same on every server, so that a question drilled on
// one can be found on another.
func QuestionHash(wireName []byte, qtype, qclass uint16) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(wireName)
	var tail [4]byte
	binary.BigEndian.PutUint16(tail[:], qtype)
	binary.BigEndian.PutUint16(tail[2:], qclass)
	_, _ = d.Write(tail[:])
	return d.Sum64()
}

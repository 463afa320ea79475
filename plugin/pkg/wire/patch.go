package wire

import "encoding/binary"

// Answer is a stored answer as it goes out, but for what differs from client to
// client. Names in Body may point into the question, which is why each client
// sees its own spelling (0x20).
type Answer struct {
	Flags  [2]byte // the header's third and fourth byte: AA, RA, AD, rcode count
	Counts [6]byte // of answers, authorities and additionals
	Body   []byte  // what stands behind the question, without OPT
}

// Len is the length of the answer to q, with options in its OPT record.
func (a *Answer) Len(q *Query, options []byte) int {
	n := q.End + len(a.Body)
	if q.EDNS {
		n += optFixed + len(options)
	}
	return n
}

// Put writes the answer to q over it and returns the answer's length. buf holds
// the query, which Parse has read into q, and must have room for Len. size is the
// UDP size that the OPT record says: the client's own, as CoreDNS has it.
func (a *Answer) Put(buf []byte, q *Query, size uint16, options []byte) int {
	h := (*[HeaderLen]byte)(buf)
	h[2] = bitQR | bitRD | a.Flags[0]&bitAA
	h[3] = a.Flags[1]&(bitRA|0x0f) | h[3]&bitCD
	if a.Flags[1]&bitAD != 0 && (q.AD || q.DO) { // RFC 6840, 5.8
		h[3] |= bitAD
	}
	*(*[6]byte)(h[6:]) = a.Counts
	n := q.End + copy(buf[q.End:], a.Body)
	if q.EDNS {
		binary.BigEndian.PutUint16(h[10:], binary.BigEndian.Uint16(h[10:])+1)
		n += PutOPT(buf[n:], size, q.DO, options)
	}
	return n
}

// PutOPT writes an OPT record of version 0 and returns its length.
func PutOPT(b []byte, size uint16, do bool, options []byte) int {
	o := (*[optFixed]byte)(b)
	*o = [optFixed]byte{2: 41}
	binary.BigEndian.PutUint16(o[3:], size)
	if do {
		o[7] = 0x80
	}
	binary.BigEndian.PutUint16(o[9:], uint16(len(options))) // #nosec G115 -- options are ours and short
	return optFixed + copy(b[optFixed:], options)
}

// PutError answers q with a response code, one of the header's, and nothing
// else. What it says of the question is as Put has it.
func PutError(buf []byte, q *Query, rcode byte, size uint16, options []byte) int {
	a := Answer{Flags: [2]byte{0, rcode}}
	return a.Put(buf, q, size, options)
}

// AppendEDE appends an extended DNS error as an EDNS option (RFC 8914).
func AppendEDE(b []byte, code uint16, text string) []byte {
	b = binary.BigEndian.AppendUint16(b, 15)
	b = binary.BigEndian.AppendUint16(b, uint16(2+len(text))) // #nosec G115 -- texts are ours and short
	b = binary.BigEndian.AppendUint16(b, code)
	return append(b, text...)
}

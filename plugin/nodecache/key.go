package nodecache

const maxName = 255 // bytes of a name in wire form (RFC 1035, 3.1)

// Flags of a key, and one of an answer that is never stored.
const (
	keyDO     = 1 << iota // the client takes DNSSEC records (RFC 3225)
	keyCD                 // and wants them unchecked (RFC 4035, 3.2.2)
	truncated             // the answer was cut
)

func flagsOf(do, cd bool) (f uint8) {
	if do {
		f = keyDO
	}
	if cd {
		f |= keyCD
	}
	return f
}

// key is what an answer is stored under. The class is always IN. A client subnet
// (ECS) is no part of it, because none is passed on upstream.
type key struct {
	name  []byte // in wire form, lower case
	qtype uint16
	block uint16
	flags uint8
	buf   [maxName + 1]byte // room for a name
}

// clone is k in memory of its own.
func (k *key) clone() *key {
	c := &key{qtype: k.qtype, block: k.block, flags: k.flags}
	c.name = c.buf[:copy(c.buf[:], k.name)]
	return c
}

package nodecache

import (
	"encoding/binary"
	"sync/atomic"
	"time"
	"unsafe"

	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/miekg/dns"
)

// kind is what an answer says.
type kind uint8

const (
	positive    kind = iota // there are records
	nxdomain                // there is no such name
	nodata                  // there is the name, without records of that type
	failure                 // a server answered SERVFAIL or the like
	unreachable             // no server answered
	unstored                // good for those who wait for it, and nobody else
)

func (k kind) denial() bool { return k != positive }

// failed says whether it is no answer to hold on to.
func (k kind) failed() bool { return k == failure || k == unreachable || k == unstored }

// state is what an entry is good for.
type state uint8

const (
	gone       state = iota // nothing
	fresh                   // it is the answer
	staleNow                // it is the answer: upstreams do not have a better one
	staleLater              // it will be, if upstreams do not answer in time
)

// entry is a stored answer. What stands above the line never changes once it is
// in the table. A hundred bytes more or less here are a hundred megabytes for a
// million entries, which is why it is packed and why data is no slice.
type entry struct {
	data    *byte  // name, body, EDNS options, offsets of TTLs
	stored  int64  // when it was learnt, Moment.Mono
	ttl     uint32 // seconds from stored that it is fresh
	hold    uint32 // seconds more that it may be served stale
	block   uint16
	qtype   uint16
	bodyLen uint16
	ttls    uint16 // how many
	spinAt  uint16 // first RDATA of the set that rotates, in the body
	spinN   uint8  // how many records rotate; 0: none
	spinLen uint8  // of an RDATA
	nameLen uint8
	optLen  uint8
	kind    kind
	flags   uint8 // keyDO, keyCD
	header  [2]byte
	counts  [6]byte

	// ------------------------------------------------------------------------

	queue queueID       // guarded by the store
	used  atomic.Uint32 // see touch
	last  atomic.Uint32 // when it was last asked for, in seconds
	// retryAt is 0 while nothing is known of upstreams. Else a refresh is on or has
	// failed: a stale entry is answered at once, and the next refresh is not before
	// this moment (secondsOf; see comeback for justBack).
	retryAt    atomic.Uint32
	prev, next *entry // in its queue; guarded by the store
}

// secondsOf is a Moment.Mono as retryAt has it: never 0.
func secondsOf(mono int64) uint32 {
	return uint32(max(mono, 0)/int64(time.Second)) + 1 // #nosec G115 -- 136 years
}

const spinStep = 12 // bytes from a record's start to its RDATA, its name being a pointer

func (e *entry) size() int {
	return int(e.nameLen) + int(e.bodyLen) + int(e.optLen) + 2*int(e.ttls)
}

func (e *entry) bytes() []byte   { return unsafe.Slice(e.data, e.size()) }
func (e *entry) name() []byte    { return e.bytes()[:e.nameLen] }
func (e *entry) body() []byte    { return e.bytes()[e.nameLen:][:e.bodyLen] }
func (e *entry) options() []byte { return e.bytes()[int(e.nameLen)+int(e.bodyLen):][:e.optLen] }
func (e *entry) offsets() []byte { return e.bytes()[e.size()-2*int(e.ttls):] }

// is says whether e is the answer to k.
func (e *entry) is(k *key) bool {
	return e.block == k.block && e.qtype == k.qtype && e.flags == k.flags && string(e.name()) == string(k.name)
}

// key is the entry's, in memory of its own.
func (e *entry) key() *key {
	k := &key{block: e.block, qtype: e.qtype, flags: e.flags}
	k.name = k.buf[:copy(k.buf[:], e.name())]
	return k
}

// touch counts that the entry was asked for and says how often that was without a
// gap of gap. The low byte of used is for the eviction and stops at 3, the next
// one counts and stops at 255: what is asked often is not written to for ever.
func (e *entry) touch(now int64, gap time.Duration) int {
	u := e.used.Load()
	seconds := secondsOf(now)
	if last := e.last.Load(); last != seconds {
		if last != 0 && time.Duration(seconds-last)*time.Second >= gap {
			u &^= 0xff00
		}
		e.last.Store(seconds)
	}
	was := u
	if u&0xff < 3 {
		u++
	}
	if u&0xff00 < 0xff00 {
		u += 0x100
	}
	if u != was {
		e.used.Store(u)
	}
	return int(u >> 8 & 0xff)
}

// aging is how TTLs go out.
type aging struct {
	age   uint32 // seconds to take off
	stale bool   // they are all ttl instead
	ttl   uint32
}

// EDEs of stale answers (RFC 8914, 4.4 and 4.20).
var (
	staleAnswer   = wire.AppendEDE(nil, dns.ExtendedErrorCodeStaleAnswer, "")
	staleNXDOMAIN = wire.AppendEDE(nil, dns.ExtendedErrorCodeStaleNXDOMAINAnswer, "")
)

// edns is the content of the OPT record.
func (e *entry) edns(a aging) []byte {
	switch {
	case !a.stale:
		return e.options()
	case e.kind == nxdomain:
		return staleNXDOMAIN
	}
	return staleAnswer
}

// put writes the answer to q over it, see wire.Answer.
func (e *entry) put(buf []byte, q *wire.Query, size uint16, a aging) int {
	answer := wire.Answer{Flags: e.header, Counts: e.counts, Body: e.body()}
	n := answer.Put(buf, q, size, e.edns(a))
	body := buf[q.End:]
	for o := e.offsets(); len(o) > 0; o = o[2:] {
		p := body[binary.BigEndian.Uint16(o):][:4]
		if a.stale {
			binary.BigEndian.PutUint32(p, a.ttl)
		} else {
			binary.BigEndian.PutUint32(p, binary.BigEndian.Uint32(p)-a.age)
		}
	}
	if e.spinN > 0 {
		e.spin(body, int(q.ID))
	}
	return n
}

// room is the length that put would return.
func (e *entry) room(q *wire.Query, a aging) int {
	n := q.End + int(e.bodyLen)
	if q.EDNS {
		n += optFixed + len(e.edns(a))
	}
	return n
}

// optFixed are the bytes of an OPT record without options.
const optFixed = 11

// spin rotates the addresses of a set, so that clients spread over them. By how
// much comes from the query's ID: that is as good as a counter, needs no state,
// and both ways to the cache turn by the same.
func (e *entry) spin(body []byte, id int) {
	n, l := int(e.spinN), int(e.spinLen)
	by := id % n
	if by == 0 {
		return
	}
	from := e.body()
	step := spinStep + l
	at := int(e.spinAt)
	for i := range n {
		j := i + by
		if j >= n {
			j -= n
		}
		copy(body[at+i*step:at+i*step+l], from[at+j*step:])
	}
}

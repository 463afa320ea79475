package nodecache

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"unsafe"

	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/miekg/dns"
)

// maxOptions bounds the EDNS options kept with an answer: the texts of extended
// errors, which the world may write.
const maxOptions = 255

var errNotKept = errors.New("the answer is not in a form that can be kept")

// limits are the bounds of TTLs, in seconds.
type limits struct{ most, least uint32 }

func (l limits) clamp(ttl uint32) uint32 { return max(min(ttl, l.most), l.least) }

// newEntry makes the entry of an answer to k, whose name is name. now is Moment.Mono. The answer is
// fresh for the smallest TTL in it; each record keeps its own.
func newEntry(k *key, name string, m *dns.Msg, l *lifetimes, now int64) (*entry, error) {
	e := &entry{block: k.block, qtype: k.qtype, flags: k.flags, stored: now}
	e.kind = classify(m)
	whole := dns.Msg{
		MsgHdr:   dns.MsgHdr{Response: true, Authoritative: m.Authoritative, RecursionAvailable: m.RecursionAvailable, AuthenticatedData: m.AuthenticatedData, Rcode: m.Rcode & 0xf},
		Compress: true,
		Question: []dns.Question{{Name: name, Qtype: k.qtype, Qclass: dns.ClassINET}},
		Answer:   m.Answer,
		Ns:       m.Ns,
	}
	for _, rr := range m.Extra {
		if t := rr.Header().Rrtype; t != dns.TypeOPT && t != dns.TypeTSIG {
			whole.Extra = append(whole.Extra, rr)
		}
	}
	if e.kind == failure { // nothing of it is worth keeping
		whole.Answer, whole.Ns, whole.Extra = nil, nil, nil
	}
	packed, err := whole.Pack()
	if err != nil {
		return nil, err
	}
	// miekg/dns reads some records that are cut short and writes what nobody can
	// read; it would go out for as long as it is kept.
	if new(dns.Msg).Unpack(packed) != nil {
		return nil, errNotKept
	}
	end := wire.HeaderLen + len(k.name) + 4
	if len(packed) < end || len(packed) > math.MaxUint16 {
		return nil, errNotKept
	}
	e.header = [2]byte(packed[2:])
	e.counts = [6]byte(packed[6:])
	body := packed[end:]
	records, err := recordsOf(body, len(whole.Answer)+len(whole.Ns)+len(whole.Extra))
	if err != nil {
		return nil, err
	}
	e.live(m, l, body, records)
	if m.Truncated {
		e.flags |= truncated
		e.kind = unstored
	}
	e.findSpin(body, records[:min(len(whole.Answer), len(records))])
	e.fill(k.name, body, optionsOf(m), records)
	return e, nil
}

// live gives every record its TTL, and the entry its own.
func (e *entry) live(m *dns.Msg, l *lifetimes, body []byte, records []record) {
	bounds := l.positive
	if e.kind.denial() {
		bounds = l.negative
	}
	ttl, soa := uint32(math.MaxUint32), false
	for i := range records {
		r := &records[i]
		t := r.ttl
		if e.kind.denial() && r.rrtype == dns.TypeSOA {
			t, soa = min(t, r.minimum), true // RFC 2308, 5
		}
		if t == 0 {
			e.kind = unstored // it is for this one time (RFC 1035, 3.2.1)
			continue
		}
		t = bounds.clamp(t)
		ttl = min(ttl, t)
		binary.BigEndian.PutUint32(body[r.at+4:], t)
	}
	switch e.kind {
	case failure:
		ttl = l.failure
		if m.Rcode != dns.RcodeServerFailure {
			ttl = min(ttl, briefly)
		}
	case nxdomain, nodata:
		if !soa { // RFC 2308, 5: not to be cached, but a storm of them is worse
			ttl = min(ttl, l.negative.most, noSOA)
		}
	case unstored:
		ttl = 0
	}
	if ttl == 0 || ttl == math.MaxUint32 {
		e.kind, ttl = unstored, 0
	}
	e.ttl = ttl
}

// fill gives the entry its data, in one piece of its own.
func (e *entry) fill(name, body, options []byte, records []record) {
	n := len(name) + len(body) + len(options) + 2*len(records)
	data := make([]byte, 0, n)
	data = append(append(append(data, name...), body...), options...)
	for _, r := range records {
		data = binary.BigEndian.AppendUint16(data, uint16(r.at+4)) // #nosec G115 -- below 65536
	}
	e.data = unsafe.SliceData(data)
	// #nosec G115 -- bounded by newEntry: a name, a message, maxOptions
	e.nameLen, e.bodyLen, e.optLen, e.ttls = uint8(len(name)), uint16(len(body)), uint8(len(options)), uint16(len(records))
}

// cost is what the entry takes of the store, in bytes.
func (e *entry) cost() int64 { return entryCost + allocated(e.size()) }

// allocated is about what the allocator takes for n bytes: it rounds up by at
// most an eighth.
func allocated(n int) int64 { return int64(n + n/8 + 8) }

// record is where a record of a body is, and what of it matters.
type record struct {
	at      int // its type, in the body: behind the name
	nameLen int
	rrtype  uint16
	ttl     uint32
	rdata   int
	rdLen   int
	minimum uint32 // of a SOA
}

// recordsOf finds the n records of a body.
func recordsOf(body []byte, n int) ([]record, error) {
	records := make([]record, 0, n)
	off := 0
	for range n {
		start := off
		for {
			if off >= len(body) {
				return nil, errNotKept
			}
			l := int(body[off])
			if l >= 0xc0 {
				off += 2
				break
			}
			off += 1 + l
			if l == 0 {
				break
			}
		}
		if off+10 > len(body) {
			return nil, errNotKept
		}
		r := record{
			at: off, nameLen: off - start,
			rrtype: binary.BigEndian.Uint16(body[off:]),
			ttl:    binary.BigEndian.Uint32(body[off+4:]),
			rdata:  off + 10,
			rdLen:  int(binary.BigEndian.Uint16(body[off+8:])),
		}
		off = r.rdata + r.rdLen
		if off > len(body) {
			return nil, errNotKept
		}
		if r.ttl > math.MaxInt32 { // RFC 2181, 8
			r.ttl = 0
		}
		if r.rrtype == dns.TypeSOA && r.rdLen >= 4 {
			r.minimum = binary.BigEndian.Uint32(body[off-4:])
		}
		records = append(records, r)
	}
	if off != len(body) {
		return nil, errNotKept
	}
	return records, nil
}

// findSpin finds the addresses that can be rotated: a run of A or AAAA records of
// one name and one TTL at the answer's end (CNAMEs stand before it). Only RDATA
// moves, so names that later ones point to stay where they are.
func (e *entry) findSpin(body []byte, answers []record) {
	for i := range answers {
		r := answers[i]
		length := map[uint16]int{dns.TypeA: 4, dns.TypeAAAA: 16}[r.rrtype]
		if length == 0 || r.rdLen != length {
			continue
		}
		name, ttl := body[r.at-r.nameLen:r.at], binary.BigEndian.Uint32(body[r.at+4:])
		n := 1
		for _, o := range answers[i+1:] {
			last := answers[i+n-1]
			if o.rrtype != r.rrtype || o.rdLen != length || o.nameLen != 2 || o.rdata != last.rdata+spinStep+length ||
				!slices.Equal(body[o.at-2:o.at], name) || binary.BigEndian.Uint32(body[o.at+4:]) != ttl {
				break
			}
			n++
		}
		if n > 1 && n <= math.MaxUint8 && r.nameLen == 2 {
			e.spinAt, e.spinN, e.spinLen = uint16(r.rdata), uint8(n), uint8(length) // #nosec G115 -- checked, or within a message
		}
		return
	}
}

// optionsOf are the extended errors of an answer, as EDNS options. The other
// options are between the upstream and us.
func optionsOf(m *dns.Msg) []byte {
	o := m.IsEdns0()
	if o == nil {
		return nil
	}
	var b []byte
	for _, option := range o.Option {
		ede, is := option.(*dns.EDNS0_EDE)
		if !is {
			continue
		}
		longer := wire.AppendEDE(b, ede.InfoCode, ede.ExtraText)
		if len(longer) > maxOptions {
			longer = wire.AppendEDE(b, ede.InfoCode, "")
		}
		if len(longer) <= maxOptions {
			b = longer
		}
	}
	return b
}

// failed makes the entry of a question that has no answer.
func failed(k *key, rcode byte, ede uint16, text string) *entry {
	e := &entry{block: k.block, qtype: k.qtype, flags: k.flags, kind: unstored, header: [2]byte{0, 0x80 | rcode}}
	e.fill(k.name, nil, wire.AppendEDE(nil, ede, text), nil)
	return e
}

func tooMany(k *key) *entry {
	return failed(k, dns.RcodeServerFailure, dns.ExtendedErrorCodeOther, "too many queries are waiting")
}

func tookTooLong(k *key) *entry {
	return failed(k, dns.RcodeServerFailure, dns.ExtendedErrorCodeNoReachableAuthority, "no upstream has answered in time")
}

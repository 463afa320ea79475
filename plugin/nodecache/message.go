package nodecache

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/miekg/dns"
)

// longOnes are the long answers that are being made into messages, which may have
// thousands of records and be ten times as long as what is held. Thousands of them
// at once would take all the memory, and the processors from all other queries.
var longOnes = make(chan struct{}, 2*runtime.GOMAXPROCS(0))

// messageInTurn is message, and waits where too many make long ones.
func (e *entry) messageInTurn(r *dns.Msg, a aging) (*dns.Msg, error) {
	if e.size() > pageSize {
		longOnes <- struct{}{}
		defer func() { <-longOnes }()
	}
	return e.message(r, a)
}

// message is the answer to r as CoreDNS's plugins want it.
func (e *entry) message(r *dns.Msg, a aging) (*dns.Msg, error) {
	q := wire.Query{ID: r.Id, Type: e.qtype, AD: r.AuthenticatedData, CD: r.CheckingDisabled}
	if o := r.IsEdns0(); o != nil {
		q.EDNS, q.DO, q.Size = true, o.Do(), o.UDPSize()
	}
	m := new(dns.Msg)
	buf := pages.Get().(*[pageSize]byte)
	defer pages.Put(buf)
	if e.addresses(m, r, a) {
		// What is not read from the body is read as if there were none.
		head := header(buf[:], r)
		q.End = wire.HeaderLen
		answer := wire.Answer{Flags: e.header}
		n := answer.Put(head, &q, q.Size, e.edns(a))
		records := m.Answer
		if err := m.Unpack(head[:n]); err != nil {
			return nil, unreadable(r, err)
		}
		m.Question, m.Answer = slices.Clone(r.Question), records
	} else if err := e.unpack(m, r, &q, a, buf[:]); err != nil {
		return nil, err
	}
	m.Truncated = e.flags&truncated != 0
	return m, nil
}

// pageSize is room for nearly every answer.
const pageSize = 4096

var pages = sync.Pool{New: func() any { return new([pageSize]byte) }}

// header begins an answer to r in buf, without a question.
func header(buf []byte, r *dns.Msg) []byte {
	clear(buf[:wire.HeaderLen])
	binary.BigEndian.PutUint16(buf, r.Id)
	if r.CheckingDisabled {
		buf[3] = 0x10
	}
	return buf
}

func unreadable(r *dns.Msg, err error) error {
	return fmt.Errorf("cannot read a stored answer for %q: %w", r.Question[0].Name, err)
}

// unpack makes the message out of what the wire path would send.
func (e *entry) unpack(m, r *dns.Msg, q *wire.Query, a aging, buf []byte) error {
	if room := wire.HeaderLen + maxName + 4 + e.size() + 512; room > len(buf) {
		buf = make([]byte, room)
	}
	buf = header(buf, r)
	buf[5] = 1
	end, err := dns.PackDomainName(r.Question[0].Name, buf, wire.HeaderLen, nil, false)
	if err != nil {
		return err
	}
	if end-wire.HeaderLen != int(e.nameLen) {
		return fmt.Errorf("the answer to %q is not for it", r.Question[0].Name)
	}
	binary.BigEndian.PutUint16(buf[end:], e.qtype)
	binary.BigEndian.PutUint16(buf[end+2:], dns.ClassINET)
	q.End = end + 4
	n := e.put(buf, q, q.Size, a)
	if err := m.Unpack(buf[:n]); err != nil {
		return unreadable(r, err)
	}
	return nil
}

// addresses puts the records into m if they are the name's addresses and nothing
// else, as most answers are: reading the name of each again would cost more than
// all the rest. It says whether it did.
func (e *entry) addresses(m, r *dns.Msg, a aging) bool {
	var rdata int
	switch e.qtype {
	case dns.TypeA:
		rdata = 4
	case dns.TypeAAAA:
		rdata = 16
	default:
		return false
	}
	step, body, name := spinStep+rdata, e.body(), r.Question[0].Name
	n := int(binary.BigEndian.Uint16(e.counts[:]))
	if n == 0 || n*step != len(body) || binary.BigEndian.Uint32(e.counts[2:]) != 0 || len(name)+1 != int(e.nameLen) {
		return false
	}
	by := 0
	switch {
	case e.spinN == 0:
	case int(e.spinN) == n && e.spinAt == spinStep:
		by = int(r.Id) % n
	default:
		return false
	}
	for at := 0; at < len(body); at += step {
		// A pointer to the question, the type, IN; and the length of the RDATA.
		want := [...]byte{0xc0, wire.HeaderLen, byte(e.qtype >> 8), byte(e.qtype), 0, dns.ClassINET}
		if string(body[at:at+len(want)]) != string(want[:]) || int(binary.BigEndian.Uint16(body[at+10:])) != rdata {
			return false
		}
	}
	m.Answer = make([]dns.RR, n)
	for i := range n {
		ttl := a.ttl
		if !a.stale {
			ttl = binary.BigEndian.Uint32(body[i*step+6:]) - a.age
		}
		h := dns.RR_Header{Name: name, Rrtype: e.qtype, Class: dns.ClassINET, Ttl: ttl, Rdlength: uint16(rdata)} // #nosec G115 -- 4 or 16
		ip := append(make([]byte, 0, 16), body[(i+by)%n*step+spinStep:][:rdata]...)
		if e.qtype == dns.TypeA {
			m.Answer[i] = &dns.A{Hdr: h, A: ip}
		} else {
			m.Answer[i] = &dns.AAAA{Hdr: h, AAAA: ip}
		}
	}
	return true
}

package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns/coredns/core/dnsserver"

	"github.com/miekg/dns"
)

const (
	// maxWaiting is how many queries of one address wait in CoreDNS's chain at
	// once. Each holds a goroutine, some 16 KiB.
	maxWaiting = 4096
	// idleFor is how long a goroutine waits for its next query before it ends. A
	// goroutine that is used again has grown its stack already: a fresh one spends
	// a sixth of a query's time on that.
	idleFor = 10 * time.Second
)

// asker is whom a query came from: a UDP peer, or a stream.
type asker interface {
	Peer
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	Network() string
	// sendMore sends one more message of an answer of several, once there is room.
	sendMore(b []byte) error
	// Close ends the connection, where there is one.
	Close() error
	// done is called once when a query has been dealt with.
	done()
}

// job is a query on its way down CoreDNS's chain.
type job struct {
	packet []byte
	from   asker
	to     *target
}

var jobs = sync.Pool{New: func() any { return &job{packet: make([]byte, 0, maxQuery)} }}

func newJob() *job {
	return jobs.Get().(*job) //nolint:errcheck // nothing else is in there
}

// free takes the job back. Long packets come over streams, and are few.
func (j *job) free() {
	j.from, j.to = nil, nil
	if cap(j.packet) <= MaxAnswer {
		jobs.Put(j)
	}
}

// pool is the goroutines that carry jobs.
type pool struct {
	ready   chan *job
	running atomic.Int64
	closed  chan struct{}
}

func newPool() *pool { return &pool{ready: make(chan *job), closed: make(chan struct{})} }

// run has j carried; false if too many are.
func (p *pool) run(j *job) bool {
	j.to.inflight.Add(1)
	select {
	case p.ready <- j:
		return true
	default:
	}
	if p.running.Add(1) > maxWaiting {
		p.running.Add(-1)
		j.to.inflight.Add(-1)
		return false
	}
	go p.carry(j)
	return true
}

func (p *pool) carry(j *job) {
	defer p.running.Add(-1)
	idle := time.NewTimer(idleFor)
	defer idle.Stop()
	for {
		j.do()
		idle.Reset(idleFor)
		select {
		case j = <-p.ready:
		case <-idle.C:
			return
		case <-p.closed:
			return
		}
	}
}

// do does what miekg/dns's server does with a packet: accept or reject it by its
// header, unpack it, check its signature, and have it answered.
func (j *job) do() {
	defer func() {
		j.from.done()
		j.to.inflight.Add(-1)
		j.free()
	}()
	if len(j.packet) < HeaderLen {
		return // nobody to answer
	}
	r := &response{asker: j.from, to: j.to}
	m := new(dns.Msg)
	switch action := dns.DefaultMsgAcceptFunc(headerOf(j.packet)); action {
	case dns.MsgAccept:
		if m.Unpack(j.packet) != nil {
			r.reject(m, action)
			return
		}
	case dns.MsgReject, dns.MsgRejectNotImplemented:
		_ = m.Unpack(j.packet[:HeaderLen]) // a header alone is a message
		r.reject(m, action)
		return
	default:
		return
	}
	server := j.to.server
	if t := m.IsTsig(); t != nil {
		r.tsigMAC = t.MAC
		r.tsigStatus = dns.ErrSecret
		if secret, known := server.TsigSecret[t.Hdr.Name]; known {
			r.tsigStatus = dns.TsigVerify(j.packet, secret, "", false)
		}
	}
	ctx := context.WithValue(context.Background(), dnsserver.Key{}, server)
	server.ServeDNS(context.WithValue(ctx, dnsserver.LoopKey{}, 0), r, m)
}

// response is a dns.ResponseWriter.
type response struct {
	asker
	to         *target
	closed     bool
	begun      bool // a message was sent
	tsigStatus error
	tsigTimers bool
	tsigMAC    string
}

var errClosed = errors.New("the response was closed before it was written")

func headerOf(b []byte) dns.Header {
	be := func(at int) uint16 { return binary.BigEndian.Uint16(b[at:]) }
	return dns.Header{Id: be(0), Bits: be(2), Qdcount: be(4), Ancount: be(6), Nscount: be(8), Arcount: be(10)}
}

// reject answers what is no acceptable query. m is what could be read of it.
func (r *response) reject(m *dns.Msg, action dns.MsgAcceptAction) {
	opcode := m.Opcode
	m.SetRcodeFormatError(m)
	m.Zero = false
	if action == dns.MsgRejectNotImplemented {
		m.Opcode, m.Rcode = opcode, dns.RcodeNotImplemented
	}
	m.Answer, m.Ns, m.Extra = nil, nil, nil
	_ = r.WriteMsg(m) // the client went away: nobody to tell
}

func (r *response) WriteMsg(m *dns.Msg) error {
	var b []byte
	var err error
	if t := m.IsTsig(); t != nil {
		b, r.tsigMAC, err = dns.TsigGenerate(m, r.to.server.TsigSecret[t.Hdr.Name], r.tsigMAC, r.tsigTimers)
	} else {
		b, err = m.Pack()
	}
	if err != nil {
		return err
	}
	_, err = r.Write(b)
	return err
}

func (r *response) Write(b []byte) (int, error) {
	if r.closed {
		return 0, errClosed
	}
	send := r.Send
	if r.begun {
		send = r.sendMore
	}
	r.begun = true
	if err := send(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (r *response) Close() error {
	if r.closed {
		return errClosed
	}
	r.closed = true
	return r.asker.Close()
}

func (r *response) TsigStatus() error          { return r.tsigStatus }
func (r *response) TsigTimersOnly(timers bool) { r.tsigTimers = timers }
func (r *response) Hijack()                    {}

// zoneName is an interface's name by its index, as package net has it.
func zoneName(index uint32) string {
	if i, err := net.InterfaceByIndex(int(index)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(index), 10)
}

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// attempts of a stub at one name, as glibc's default.
const attempts = 2

// stub asks one server as glibc does (resolv/res_send.c and res_query.c): both
// address types at once from one socket; after the timeout once more from the
// same socket, so from the same port; where only one of two answers came, from a
// new socket and one after the other; after SERVFAIL at once from a new socket.
type stub struct {
	local   netip.Addr
	server  netip.AddrPort
	timeout time.Duration
}

// looked is what a lookup has come to.
type looked struct {
	ok     bool
	wanted int // questions: a name and a type
	sent   int // queries, those sent again included
}

// reply to one of the two questions of a step.
type reply int

const (
	silent  reply = iota // none came
	refused              // SERVFAIL and the like
	absent               // there is no such name, or nothing of this type
	found
)

// lookup goes through the search list: with fewer dots than ndots:5 it comes
// first. A timeout ends the lookup, as it does in glibc; SERVFAIL goes on to the
// next name.
func (s *stub) lookup(ctx context.Context, name string) (l looked) {
	names := make([]string, 0, len(search)+1)
	for _, domain := range search {
		names = append(names, name+"."+domain)
	}
	for _, n := range append(names, name+".") {
		l.wanted += 2
		got, sent := s.step(ctx, n)
		l.sent += sent
		switch {
		case got == found:
			l.ok = true
			return l
		case got == silent:
			return l
		}
	}
	return l
}

// exchange is the two questions of a step and what came back.
type exchange struct {
	wire [2][]byte
	got  [2]reply
	sent int
}

// step asks for one name, at most so many times, and returns the better of the
// two replies.
func (s *stub) step(ctx context.Context, name string) (reply, int) {
	e, err := newExchange(name, dns.Id())
	if err != nil {
		return refused, 0
	}
	var c *net.UDPConn
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	single, failed := false, false
	for range attempts {
		if c == nil {
			if c, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.local, 0)), net.UDPAddrFromAddrPort(s.server)); err != nil {
				return silent, e.sent
			}
		}
		failed = s.attempt(ctx, c, e, single)
		answered := e.answered()
		if answered == 2 || ctx.Err() != nil {
			break
		}
		if failed || answered == 1 {
			c.Close()
			c = nil
			single = single || answered == 1
		}
	}
	switch best := max(e.got[0], e.got[1]); {
	case best >= absent: // one answer of two, even: glibc uses what it has
		return best, e.sent
	case failed:
		return refused, e.sent
	}
	return silent, e.sent
}

// newExchange has the questions for a name. Their IDs differ, as glibc sees to,
// because it tells the answers apart by them.
func newExchange(name string, id uint16) (*exchange, error) {
	e := &exchange{}
	for i, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		m := new(dns.Msg).SetQuestion(name, qtype)
		m.Id = id + uint16(i) //nolint:gosec // 0 or 1; it may wrap
		b, err := m.Pack()
		if err != nil {
			return nil, err
		}
		e.wire[i] = b
	}
	return e, nil
}

// answered is how many of the two questions have an answer.
func (e *exchange) answered() (n int) {
	for _, g := range e.got {
		if g >= absent {
			n++
		}
	}
	return n
}

// attempt sends what is not answered yet and waits for it. It says whether the
// server answered with an error.
func (s *stub) attempt(ctx context.Context, c *net.UDPConn, e *exchange, single bool) (failed bool) {
	for i := range e.wire {
		if e.got[i] >= absent {
			continue
		}
		e.got[i] = silent
		if _, err := c.Write(e.wire[i]); err != nil {
			continue
		}
		e.sent++
		if single {
			s.wait(ctx, c, e, i)
		}
	}
	if !single {
		s.wait(ctx, c, e, -1)
	}
	return e.got[0] == refused || e.got[1] == refused
}

// wait reads until the question with this index is answered (-1: both), one of
// them with an error, or the timeout is over.
func (s *stub) wait(ctx context.Context, c *net.UDPConn, e *exchange, only int) {
	deadline := time.Now().Add(s.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = c.SetReadDeadline(deadline)
	buf := make([]byte, 1500)
	for {
		n, err := c.Read(buf)
		if err != nil {
			var t net.Error
			if errors.As(err, &t) && t.Timeout() {
				return
			}
			continue // an ICMP error: glibc would go to the next server, of which there is none
		}
		i := e.match(buf[:n])
		if i < 0 {
			continue
		}
		e.got[i] = judgeReply(buf[:n])
		if e.got[i] == refused || only == i || only < 0 && e.got[0] >= absent && e.got[1] >= absent {
			return
		}
	}
}

// match is the index of the question that a message answers; -1 if it is none of ours.
func (e *exchange) match(m []byte) int {
	for i, q := range e.wire {
		if len(m) >= 12 && m[2]&0x80 != 0 && binary.BigEndian.Uint16(m) == binary.BigEndian.Uint16(q) {
			return i
		}
	}
	return -1
}

func judgeReply(m []byte) reply {
	switch m[3] & 15 {
	case dns.RcodeSuccess:
		if m[6]|m[7] != 0 {
			return found
		}
		return absent
	case dns.RcodeNameError:
		return absent
	}
	return refused
}

package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/coredns/coredns/core/dnsserver"

	"github.com/miekg/dns"
)

// ErrNobody says that no group is open at an address, or none has a server yet.
var ErrNobody = errors.New("no server of this process is known there")

// Ask has the server at an address answer q as if it had come in there from its own
// address, without a socket: what would come in may go to another process. It waits
// as long as the server takes.
func Ask(addr netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	g := reaching(addr)
	if g == nil {
		return nil, fmt.Errorf("%s: %w", addr, ErrNobody)
	}
	t := g.target.Load()
	if t == nil || t.server == nil {
		return nil, fmt.Errorf("%s: %w", addr, ErrNobody)
	}
	t.inflight.Add(1)
	defer t.inflight.Add(-1)
	w := &kept{at: net.UDPAddrFromAddrPort(addr)}
	ctx := context.WithValue(context.Background(), dnsserver.Key{}, t.server)
	t.server.ServeDNS(context.WithValue(ctx, dnsserver.LoopKey{}, 0), w, q)
	if w.answer == nil {
		return nil, errors.New("the server did not answer")
	}
	return w.answer, nil
}

// kept is a dns.ResponseWriter that keeps the answer.
type kept struct {
	at     net.Addr
	answer *dns.Msg
}

func (k *kept) WriteMsg(m *dns.Msg) error { k.answer = m; return nil }

func (k *kept) Write(b []byte) (int, error) {
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil {
		return 0, err
	}
	k.answer = m
	return len(b), nil
}

func (k *kept) LocalAddr() net.Addr  { return k.at }
func (k *kept) RemoteAddr() net.Addr { return k.at }
func (*kept) Network() string        { return "udp" }
func (*kept) Close() error           { return nil }
func (*kept) TsigStatus() error      { return nil }
func (*kept) TsigTimersOnly(bool)    {}
func (*kept) Hijack()                {}

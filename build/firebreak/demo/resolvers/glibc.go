package resolvers

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Glibc asks as glibc's resolver does (resolv/res_send.c): each server in turn,
// then all of them again, Attempts times. Both questions go out from one socket
// per server, which is kept for the whole lookup: a second attempt comes from
// the same port with the same ID. The next lookup begins with the first server
// again: nothing is remembered.
type Glibc struct {
	Local    netip.Addr
	Servers  []netip.AddrPort
	Timeout  time.Duration // 5 s in glibc
	Attempts int           // 2 in glibc
}

// NewGlibc has glibc's defaults.
func NewGlibc(local netip.Addr, servers ...netip.AddrPort) *Glibc {
	return &Glibc{Local: local, Servers: servers, Timeout: 5 * time.Second, Attempts: 2}
}

// wait for the server with that index: glibc doubles for each further server
// and divides by their number, but never waits less than a second.
func (g *Glibc) wait(index int) time.Duration {
	d := g.Timeout << index
	if index > 0 {
		d /= time.Duration(len(g.Servers))
	}
	return max(d.Truncate(time.Second), min(time.Second, g.Timeout))
}

// Lookup looks up both address types.
func (g *Glibc) Lookup(ctx context.Context, name string) Result {
	j := begin(name)
	all, err := queries(name)
	if err != nil {
		return j.end(netip.AddrPort{}, false)
	}
	sockets := make([]*net.UDPConn, len(g.Servers))
	defer func() {
		for _, s := range sockets {
			if s != nil {
				_ = s.Close()
			}
		}
	}()
	for range g.Attempts {
		for i, server := range g.Servers {
			if ctx.Err() != nil {
				return j.end(netip.AddrPort{}, false)
			}
			if sockets[i] == nil {
				if sockets[i], err = connected(g.Local, server); err != nil {
					continue
				}
			}
			if g.ask(ctx, j, sockets[i], server, all, g.wait(i)) {
				return j.end(server, true)
			}
		}
	}
	return j.end(netip.AddrPort{}, false)
}

// ask one server both questions, and wait for both answers.
func (g *Glibc) ask(ctx context.Context, j *journal, s *net.UDPConn, server netip.AddrPort, all []*query, wait time.Duration) bool {
	_ = s.SetReadDeadline(time.Now().Add(wait))
	stop := context.AfterFunc(ctx, func() { _ = s.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for _, q := range all {
		if _, err := s.Write(q.wire); err != nil {
			return false
		}
		j.sent(server)
	}
	missing := map[*query]bool{}
	for _, q := range all {
		missing[q] = true
	}
	buf := make([]byte, packetSize)
	for len(missing) > 0 {
		n, err := s.Read(buf)
		if err != nil {
			return false // its time is over, or nobody listens there
		}
		for q := range missing {
			switch q.judge(buf[:n]) {
			case usable:
				delete(missing, q)
			case useless:
				return false
			}
		}
	}
	return true
}

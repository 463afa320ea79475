package resolvers

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// Musl asks as musl's resolver does (src/network/res_msend.c): all servers at
// once, from one socket, and again with the same IDs after Timeout/Attempts,
// until Timeout is over. Whoever answers first is believed.
type Musl struct {
	Local    netip.Addr
	Servers  []netip.AddrPort
	Timeout  time.Duration // 5 s in musl: of the whole lookup
	Attempts int           // 2 in musl
}

// NewMusl has musl's defaults.
func NewMusl(local netip.Addr, servers ...netip.AddrPort) *Musl {
	return &Musl{Local: local, Servers: servers, Timeout: 5 * time.Second, Attempts: 2}
}

// Lookup looks up both address types.
func (m *Musl) Lookup(ctx context.Context, name string) Result {
	j := begin(name)
	missing, err := queries(name)
	if err != nil {
		return j.end(netip.AddrPort{}, false)
	}
	s, err := socket(m.Local)
	if err != nil {
		return j.end(netip.AddrPort{}, false)
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()

	began := time.Now()
	end, interval := began.Add(m.Timeout), m.Timeout/time.Duration(m.Attempts)
	next := began
	buf := make([]byte, packetSize)
	for now := began; now.Before(end) && ctx.Err() == nil; now = time.Now() {
		if !now.Before(next) {
			for _, q := range missing {
				for _, server := range m.Servers {
					if _, err := s.WriteToUDPAddrPort(q.wire, server); err == nil {
						j.sent(server)
					}
				}
			}
			next = next.Add(interval)
		}
		deadline := next
		if end.Before(deadline) {
			deadline = end
		}
		_ = s.SetReadDeadline(deadline)
		n, from, err := s.ReadFromUDPAddrPort(buf)
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if err != nil || !slices.Contains(m.Servers, from) {
			continue
		}
		// An error of one server is no answer: another one may know better.
		missing = slices.DeleteFunc(missing, func(q *query) bool { return q.judge(buf[:n]) == usable })
		if len(missing) == 0 {
			return j.end(from, true)
		}
	}
	return j.end(netip.AddrPort{}, false)
}

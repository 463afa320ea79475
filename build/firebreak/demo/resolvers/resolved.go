package resolvers

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Resolved asks as systemd-resolved does (resolved-dns-transaction.c): each
// question is a transaction of its own, to the current server. One that is
// silent for Timeout loses its place, for every transaction: the next server is
// the current one from then on, until it is silent itself. The question then
// goes to it from a new socket, with the same ID.
type Resolved struct {
	Local    netip.Addr
	Servers  []netip.AddrPort
	Timeout  time.Duration // of one attempt: 5 s, which is 120 s over 24 attempts
	Attempts int           // 24 in systemd

	mu      sync.Mutex
	current int
}

// NewResolved has systemd's defaults.
func NewResolved(local netip.Addr, servers ...netip.AddrPort) *Resolved {
	return &Resolved{Local: local, Servers: servers, Timeout: 5 * time.Second, Attempts: 24}
}

func (r *Resolved) pick() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// lost takes the next server, unless another transaction has done so already.
func (r *Resolved) lost(server int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == server {
		r.current = (server + 1) % len(r.Servers)
	}
}

// Lookup looks up both address types, at the same time.
func (r *Resolved) Lookup(ctx context.Context, name string) Result {
	j := begin(name)
	all, err := queries(name)
	if err != nil {
		return j.end(netip.AddrPort{}, false)
	}
	by := make([]netip.AddrPort, len(all))
	var wg sync.WaitGroup
	for i, q := range all {
		wg.Go(func() { by[i] = r.transaction(ctx, j, q) })
	}
	wg.Wait()
	for _, server := range by {
		if !server.IsValid() {
			return j.end(server, false)
		}
	}
	return j.end(by[0], true)
}

// transaction asks one question, and returns who answered it.
func (r *Resolved) transaction(ctx context.Context, j *journal, q *query) netip.AddrPort {
	for range r.Attempts {
		server := r.pick()
		if r.attempt(ctx, j, q, r.Servers[server]) {
			return r.Servers[server]
		}
		if ctx.Err() != nil {
			break
		}
		r.lost(server)
	}
	return netip.AddrPort{}
}

func (r *Resolved) attempt(ctx context.Context, j *journal, q *query, server netip.AddrPort) bool {
	s, err := connected(r.Local, server)
	if err != nil {
		return false
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	_ = s.SetReadDeadline(time.Now().Add(r.Timeout))
	if _, err := s.Write(q.wire); err != nil {
		return false
	}
	j.sent(server)
	buf := make([]byte, packetSize)
	for {
		n, err := s.Read(buf)
		if err != nil {
			return false
		}
		switch q.judge(buf[:n]) {
		case usable:
			return true
		case useless:
			return false
		}
	}
}

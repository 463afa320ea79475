package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"firebreakdns.io/firebreak/build/firebreak/demo/resolvers"
	"firebreakdns.io/firebreak/controller/run"
)

// player is a client: how it resolves, how often, and what it went through.
type player struct {
	name    string
	address netip.Addr
	about   string // what it is, in a few words; "" for one of the crowd
	want    run.Verdict
	asks    resolvers.Resolver
	every   time.Duration
	sleeps  bool // it asks nothing from the moment that the drill is asked for

	mu  sync.Mutex
	log []resolvers.Result
}

// crowd are the clients that only make the picture a usual one: a drill has
// moved traffic when nine in ten of its clients were answered elsewhere.
const crowd = 14

// newCast are the clients of the demo, those with a story first.
func newCast(w *world) []*player {
	var all []netip.AddrPort
	for _, s := range w.servers {
		all = append(all, s.dns)
	}
	one, two := all[0], all[1]
	var cast []*player
	add := func(p *player) *player {
		p.address = w.host(byte(hostClients + len(cast)))
		cast = append(cast, p)
		return p
	}
	often := 600 * time.Millisecond
	p := add(&player{name: "laptop", about: "like glibc: asks ns1; after 5 s of silence, ns2; the next time ns1 again", want: run.Followed, every: often})
	p.asks = resolvers.NewGlibc(p.address, all...)
	p = add(&player{name: "container", about: "like musl (Alpine): asks all three at once", want: run.Followed, every: often})
	p.asks = resolvers.NewMusl(p.address, all...)
	p = add(&player{name: "desktop", about: "like systemd-resolved: leaves a silent server after 5 s, and stays away", want: run.Followed, every: often})
	p.asks = resolvers.NewResolved(p.address, all...)
	p = add(&player{name: "thermostat", about: "knows ns1 and no other", want: run.Stuck, every: often})
	p.asks = resolvers.NewGlibc(p.address, one)
	p = add(&player{name: "printer", about: "asked a moment ago, and is asleep by now", want: run.Quiet, every: often, sleeps: true})
	p.asks = resolvers.NewGlibc(p.address, all...)
	p = add(&player{name: "tv", about: "uses ns2 anyway", want: run.Elsewhere, every: often})
	p.asks = resolvers.NewGlibc(p.address, two)
	for i := range crowd {
		p := add(&player{name: fmt.Sprintf("office-%02d", i+1), want: run.Followed, every: time.Second})
		switch i % 2 {
		case 0: // resolv.conf with options timeout:1
			g := resolvers.NewGlibc(p.address, all...)
			g.Timeout = time.Second
			p.asks = g
		case 1:
			p.asks = resolvers.NewMusl(p.address, all...)
		}
	}
	return cast
}

// live looks names up until ctx ends, or, for one that sleeps, until asleep is closed.
func (p *player) live(ctx context.Context, asleep <-chan struct{}) {
	if !p.sleeps {
		asleep = nil
	}
	for {
		name := fmt.Sprintf("www%d.%s", rand.IntN(40), zone)
		r := p.asks.Lookup(ctx, name)
		if ctx.Err() != nil {
			// Cut short: says nothing of the servers. What was sent counts.
			r.Answer = time.Time{}
		}
		p.mu.Lock()
		p.log = append(p.log, r)
		p.mu.Unlock()
		wait := time.NewTimer(p.every*3/4 + rand.N(p.every/2))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-asleep:
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

func (p *player) lookups() []resolvers.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]resolvers.Result(nil), p.log...)
}

package hedge

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	"firebreakdns.io/firebreak/plugin/clients/tenure"
	"firebreakdns.io/firebreak/plugin/hedge/endpoints"
	"firebreakdns.io/firebreak/plugin/hedge/engine"
)

// corefile is what one Corefile has of hedges.
type corefile struct{ groups []*group }

// holders are the Corefiles that have hedges, and state is what they share.
var (
	holders = tenure.New(func(live []*corefile) { state.apply(live) })
	state   = newProcess()
)

// process is what outlives a reload: what was learnt of upstreams, and who
// follows them, so that a new Corefile knows at once what the old one knew.
type process struct {
	mu        sync.Mutex
	live      []*corefile // running, oldest first
	cores     map[string]*sharedCore
	followers map[string]*follower
	snapshots map[string]*endpoints.Snapshot
}

type sharedCore struct {
	*engine.Core
	users int
}

func newProcess() *process {
	return &process{
		cores:     make(map[string]*sharedCore),
		followers: make(map[string]*follower),
		snapshots: make(map[string]*endpoints.Snapshot),
	}
}

// apply starts the hedges of Corefiles that are new, and then stops those that
// are gone.
func (p *process) apply(live []*corefile) {
	p.mu.Lock()
	before := p.live
	p.live = append([]*corefile(nil), live...)
	p.mu.Unlock()
	for _, c := range live {
		if slices.Contains(before, c) {
			continue
		}
		for _, g := range c.groups {
			g.start(p, p.core(g.options.key))
		}
	}
	for _, c := range before {
		if slices.Contains(live, c) {
			continue
		}
		for _, g := range c.groups {
			g.stop()
			p.drop(g.options.key)
		}
	}
	if len(live) == 0 {
		outages.remove()
	}
}

// running are the groups that run, those of the newest Corefile last.
func (p *process) running() []*group {
	p.mu.Lock()
	live := p.live
	p.mu.Unlock()
	var out []*group
	for _, c := range live {
		for _, g := range c.groups {
			if g.started() {
				out = append(out, g)
			}
		}
	}
	return out
}

// core is what was learnt under a key, or a new one.
func (p *process) core(key string) *engine.Core {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.cores[key]
	if c == nil {
		c = &sharedCore{Core: engine.New(rand.IntN)}
		p.cores[key] = c
	}
	c.users++
	return c.Core
}

func (p *process) drop(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.cores[key]; c != nil {
		if c.users--; c.users == 0 {
			delete(p.cores, key)
		}
	}
}

// follower runs a source for all who want it.
type follower struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	users map[int]func([]endpoints.Endpoint, error)
	next  int
	known []endpoints.Endpoint // last found
	err   error                // last, if newer
}

// follow calls found with what a target's source finds: at once if that is known,
// and whenever it changes. Calls do not overlap. unfollow ends it.
func (p *process) follow(o *options, t *target, found func([]endpoints.Endpoint, error)) (unfollow func()) {
	source := t.source(o)
	key := o.sourceKey(t)
	p.mu.Lock()
	f := p.followers[key]
	if f == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f = &follower{cancel: cancel, done: make(chan struct{}), users: make(map[int]func([]endpoints.Endpoint, error))}
		p.followers[key] = f
		snapshot := p.snapshot(o)
		go func() {
			defer close(f.done)
			source.Run(ctx, func(list []endpoints.Endpoint, err error) {
				f.tell(list, err)
				if err == nil && snapshot != nil {
					if err := snapshot.Keep(key, list); err != nil {
						log.Warningf("Cannot keep the endpoints of %s for the next start: %v", t.text, err)
					}
				}
			})
		}()
	}
	f.mu.Lock()
	id := f.next
	f.next++
	f.users[id] = found
	if f.known != nil {
		found(f.known, nil)
	}
	if f.err != nil {
		found(nil, f.err)
	}
	f.mu.Unlock()
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		f.mu.Lock()
		delete(f.users, id)
		last := len(f.users) == 0
		f.mu.Unlock()
		if last {
			delete(p.followers, key)
		}
		p.mu.Unlock()
		if last {
			f.cancel()
			<-f.done
		}
	}
}

func (f *follower) tell(list []endpoints.Endpoint, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	if err == nil {
		f.known = list
	}
	for _, found := range f.users {
		found(list, err)
	}
}

// snapshot is the file in which o wants endpoints kept, or nil. p.mu is held.
func (p *process) snapshot(o *options) *endpoints.Snapshot {
	if o.snapshot == "" {
		return nil
	}
	s := p.snapshots[o.snapshot]
	if s == nil {
		var err error
		if s, err = endpoints.OpenSnapshot(o.snapshot); err != nil {
			log.Warningf("Starting without the endpoints that were known before: %v", err)
		}
		p.snapshots[o.snapshot] = s
	}
	return s
}

// lastKnown are a source's endpoints from the snapshot.
func (p *process) lastKnown(o *options, t *target) []endpoints.Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.followers[o.sourceKey(t)]; f != nil {
		return nil // what is known is told at once
	}
	if s := p.snapshot(o); s != nil {
		return s.Last(o.sourceKey(t))
	}
	return nil
}

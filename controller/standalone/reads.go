package standalone

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// readEvery is how often counters, recordings and monitors are asked.
const readEvery = time.Second

// maxLookups of one monitor at a time: each ends within five seconds, and one
// begins every second.
const maxLookups = 6

// reads are what a run wants to see and what takes time to get: one call at a
// time for each thing, beside the run, so that a server that is slow to answer
// delays nothing but its own part.
type reads struct {
	c    *Controller
	spec run.Spec
	busy sync.WaitGroup

	mu      sync.Mutex
	began   map[string]time.Time // of the last read of each thing
	flying  map[string]int       // reads that are on
	stats   map[string]protocol.Stats
	parts   map[string]protocol.Recording
	lookups []run.Lookup
	seen    *run.Facts // the newest with seen tables
}

func newReads(c *Controller, spec run.Spec) *reads {
	return &reads{c: c, spec: spec, began: map[string]time.Time{}, flying: map[string]int{}, stats: map[string]protocol.Stats{}, parts: map[string]protocol.Recording{}}
}

// wait until every read has ended.
func (r *reads) wait() { r.busy.Wait() }

// want begins the reads that are due.
func (r *reads) want(ctx context.Context, n run.Needs, now time.Time) {
	f := r.c.current()
	if n.AllStats {
		for _, name := range f.Config().ServerNames() {
			r.begin("stats "+name, now, 1, func() {
				if s, err := f.Stats(ctx, name); err == nil {
					r.take(func() { r.stats[name] = s })
				}
			})
		}
	}
	for _, name := range n.Parts {
		r.begin(fmt.Sprintf("part %s %v", name, n.Samples), now, 1, func() {
			if p, err := f.Recording(ctx, name, r.spec.ID, n.Samples); err == nil {
				r.take(func() { r.parts[name] = p })
			}
		})
	}
	if n.Monitors {
		for _, m := range r.spec.Monitors {
			r.begin("monitor "+m.Name+" "+m.Type, now, maxLookups, func() {
				l := run.Lookup{Name: m.Name, At: r.c.now()}
				only := ""
				if r.spec.OfUpstream() {
					only = r.spec.Server
				}
				if err := f.Config().Lookup(ctx, m, only); err != nil {
					l.Error = err.Error()
				}
				if ctx.Err() == nil {
					r.take(func() { r.lookups = append(r.lookups, l) })
				}
			})
		}
	}
	if n.Seen {
		r.begin("seen", now, 1, func() {
			facts := f.Facts(r.c.now())
			f.AddSeen(ctx, &facts) // who could not tell is shown as such by Heard
			r.take(func() { r.seen = &facts })
		})
	}
}

func (r *reads) begin(what string, now time.Time, most int, read func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.began[what]) < readEvery || r.flying[what] >= most {
		return
	}
	r.began[what] = now
	r.flying[what]++
	r.busy.Go(func() {
		read()
		r.mu.Lock()
		r.flying[what]--
		r.mu.Unlock()
	})
}

func (r *reads) take(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// into hands over what was read since the last time. Seen tables are laid under
// the facts of now: what was asked for takes seconds, and guards are to judge
// by what is.
func (r *reads) into(o *run.Observation) {
	r.mu.Lock()
	seen := r.seen
	o.Stats, o.Parts, o.Lookups = r.stats, r.parts, r.lookups
	r.stats, r.parts, r.lookups, r.seen = map[string]protocol.Stats{}, map[string]protocol.Recording{}, nil, nil
	r.mu.Unlock()
	slices.SortStableFunc(o.Lookups, func(a, b run.Lookup) int { return a.At.Compare(b.At) })
	if seen == nil {
		return
	}
	for i := range seen.Servers {
		if s := o.Facts.Server(seen.Servers[i].Name); s != nil {
			s.Seen = seen.Servers[i].Seen
		}
	}
	o.Facts.Names, o.Facts.WithSeen = seen.Names, true
	r.c.resolve(r.spec, &o.Facts)
}

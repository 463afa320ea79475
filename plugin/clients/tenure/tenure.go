// Package tenure keeps process-wide state across Corefile reloads.
//
// CoreDNS makes new plugin instances on every reload and runs the new ones'
// OnStartup before the old ones' OnShutdown. What must outlive a reload (a
// table, a running drill) therefore lives in the process, and every instance
// that wants it holds it from its start to its shutdown. Nobody holds it any
// more: it is dropped. A new instance that fails to start never has its
// OnShutdown run; caddy tells only the old one (OnRestartFailed), so then, and
// at every start, whoever caddy does not know any more loses its hold.
//
// During a reload two instances hold the state at once. The state sees both
// sets of options, newest last, and is to be wide enough for both: nothing may
// be given up before the old instance is gone, or a failed reload could not be
// taken back.
package tenure

import (
	"sync"

	"github.com/coredns/caddy"
)

// Holders are the caddy instances that hold one process-wide state. O is what
// an instance wants of it, as its Corefile says.
type Holders[O any] struct {
	mu    sync.Mutex
	live  []*O // oldest first
	apply func(live []*O)
}

// New calls apply with the options of all who hold, oldest first, whenever they
// change; with none when the last one let go. Calls do not overlap.
func New[O any](apply func(live []*O)) *Holders[O] {
	return &Holders[O]{apply: apply}
}

// storageKey is where an instance's options stand in its caddy storage. The
// holders are part of it: one instance can hold several states.
type storageKey[O any] struct{ of *Holders[O] }

// Options are those of the instance that is being set up: the same for all of
// its server blocks. first says that they are new: zero, and to be filled in.
func (h *Holders[O]) Options(c *caddy.Controller) (o *O, first bool) {
	key := storageKey[O]{h}
	if o, ok := c.Get(key).(*O); ok {
		return o, false
	}
	o = new(O)
	c.Set(key, o)
	c.OnStartup(func() error { h.take(o); return nil })
	// None of these may fail: an error of one would keep caddy from running the
	// others' callbacks.
	c.OnRestartFailed(func() error { h.sweep(); return nil })
	c.OnShutdown(func() error { h.release(o); return nil })
	return o, true
}

// Peek is Options without beginning any: nil if the instance has none yet.
func (h *Holders[O]) Peek(c *caddy.Controller) *O {
	o, _ := c.Get(storageKey[O]{h}).(*O)
	return o
}

// None says whether nobody holds the state.
func (h *Holders[O]) None() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.live) == 0
}

func (h *Holders[O]) take(o *O) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(func(other *O) bool { return other == o || !h.known(other) })
	h.live = append(h.live, o)
	h.apply(h.live)
}

func (h *Holders[O]) release(o *O) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drop(func(other *O) bool { return other == o }) {
		h.apply(h.live)
	}
}

func (h *Holders[O]) sweep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drop(func(other *O) bool { return !h.known(other) }) {
		h.apply(h.live)
	}
}

// drop removes those of whom gone says so; it says whether there were any.
func (h *Holders[O]) drop(gone func(*O) bool) bool {
	kept := make([]*O, 0, len(h.live)+1)
	for _, o := range h.live {
		if !gone(o) {
			kept = append(kept, o)
		}
	}
	changed := len(kept) != len(h.live)
	h.live = kept
	return changed
}

// known says whether o belongs to an instance that caddy runs or is starting.
// It is only asked from caddy's own callbacks, which run while nothing else
// changes the list.
func (h *Holders[O]) known(o *O) bool {
	for _, inst := range caddy.Instances() {
		inst.StorageMu.RLock()
		has, _ := inst.Storage[storageKey[O]{h}].(*O)
		inst.StorageMu.RUnlock()
		if has == o {
			return true
		}
	}
	return false
}

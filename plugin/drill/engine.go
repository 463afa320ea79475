package drill

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// endedKept is how many ids of drills that ended are remembered, so that a late
// order cannot revive one. With a drill every ten minutes at most, it is a week;
// and such an order would need its recording to be running as well.
const endedKept = 1024

const lease = protocol.LeaseSeconds * time.Second

// Engine holds the drill of this process, of which there is at most one.
type Engine struct {
	running atomic.Pointer[Running] // nil: none, and that is all that a query looks at

	mu    sync.Mutex
	last  *protocol.DrillState // the one that ended last
	timer *time.Timer
	ended map[string]struct{}
	order [endedKept]string // of ended, a ring
	next  int
	held  atomic.Int64 // queries that are kept waiting

	// What this server is and knows, for tests to replace.
	recording func(clients.Moment) *protocol.RecordingState
	own       func() ([]netip.Prefix, error)
	changed   func() // the state did
}

// engine is the process's.
var engine = newEngine(recordingNow, ownPrefixes, control.Changed)

func newEngine(recording func(clients.Moment) *protocol.RecordingState, own func() ([]netip.Prefix, error), changed func()) *Engine {
	return &Engine{ended: make(map[string]struct{}), recording: recording, own: own, changed: changed}
}

// Current is the process's engine.
func Current() *Engine { return engine }

// Running is the drill that is on, or nil.
func (e *Engine) Running() *Running { return e.running.Load() }

// Start starts a drill. The same order again is no change; any other is refused
// while one is on, and so is an id that has ended.
func (e *Engine) Start(o protocol.Order) (*protocol.DrillState, *protocol.Problem) {
	checked, problem := checkOrder(o)
	if problem != nil {
		return nil, problem
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, over := e.ended[o.ID]; over {
		return nil, conflict(protocol.ReasonDrillEnded, "drill %q has ended on this server and stays ended: start another one", o.ID)
	}
	if r := e.running.Load(); r != nil {
		switch {
		case r.order.same(checked):
			return e.state(r), nil
		case r.order.ID == o.ID:
			return nil, conflict(protocol.ReasonDrillRunning, "drill %q is on with another order, and an order cannot be changed: end it and start another one", o.ID)
		}
		return nil, conflict(protocol.ReasonDrillRunning, "drill %q of fleet %q is on until %s: wait for its end", r.order.ID, r.order.Fleet, r.ends.Time().Format(time.RFC3339))
	}
	now := clients.Now()
	if rec := e.recording(now); rec == nil || rec.Drill != o.ID || rec.Frozen {
		return nil, conflict(protocol.ReasonNotRecording, "this server does not record for drill %q: start its recording first", o.ID)
	}
	own, err := e.own()
	if err != nil {
		return nil, protocol.NewProblem(http.StatusInternalServerError, protocol.ReasonInternal,
			"cannot tell which addresses are this server's own, which are never drilled: %v", err)
	}
	r := &Running{
		run: &run{
			order:   checked,
			started: now,
			ends:    now.Add(checked.length),
			lease:   now.Add(lease),
			done:    make(chan struct{}),
		},
		set: targets(checked, own),
	}
	e.running.Store(r)
	e.timer = time.AfterFunc(min(checked.length, lease), func() { e.due(r.run) })
	active.Set(1)
	log.Infof("Drill %s of fleet %q has started: %s, %s, for %s, readiness %s; asked for by %q: %q",
		o.ID, o.Fleet, o.Mode, describe(checked), checked.length, o.Readiness, o.By, o.Reason)
	e.changed()
	return e.state(r), nil
}

func describe(o *order) string {
	if o.Everyone {
		return "everyone"
	}
	return fmt.Sprintf("%d prefixes", len(o.targets))
}

// Renew says that the drill's controller is still there. It does not move the
// end.
func (e *Engine) Renew(id string) (*protocol.DrillState, *protocol.Problem) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.running.Load()
	if r == nil || r.order.ID != id {
		if _, over := e.ended[id]; over {
			return nil, conflict(protocol.ReasonDrillEnded, "drill %q has ended on this server", id)
		}
		return nil, protocol.NewProblem(http.StatusNotFound, protocol.ReasonNotFound, "there is no drill %q on this server", id)
	}
	r.lease = clients.Now().Add(lease)
	return e.state(r), nil
}

// Delete ends a drill. One that is not on, or not yet, is noted as ended, so
// that an order that is still on its way cannot start it.
func (e *Engine) Delete(id string) (*protocol.DrillState, *protocol.Problem) {
	if problem := protocol.CheckDrillID(id); problem != nil {
		return nil, problem
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.running.Load(); r != nil && r.order.ID == id {
		e.end(r, protocol.EndDeleted)
	}
	e.remember(id)
	if e.last != nil && e.last.ID == id {
		return e.last, nil
	}
	now := clients.Now().Time()
	return &protocol.DrillState{ID: id, Ended: &now, End: protocol.EndDeleted}, nil
}

// Remove ends whatever drill is on: nobody is left to drill.
func (e *Engine) Remove() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.running.Load(); r != nil {
		e.end(r, protocol.EndRemoved)
	}
}

// Refresh looks again at which addresses are never drilled: a reload may have
// changed them.
func (e *Engine) Refresh() {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.running.Load()
	if r == nil {
		return
	}
	own, err := e.own()
	if err != nil {
		log.Warningf("Drill %s goes on with the addresses that were this server's own when it began: %v", r.order.ID, err)
		return
	}
	e.running.Store(&Running{run: r.run, set: targets(r.order, own)})
}

// due ends a drill whose time is over. A timer, and with it the end, is on the
// monotonic clock: setting the wall clock moves neither.
func (e *Engine) due(of *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.running.Load()
	if r == nil || r.run != of {
		return
	}
	now := clients.Now()
	switch {
	case now.Mono >= r.ends.Mono:
		e.end(r, protocol.EndExpired)
	case now.Mono >= r.lease.Mono:
		e.end(r, protocol.EndAbandoned)
	default:
		e.timer.Reset(time.Duration(min(r.ends.Mono, r.lease.Mono) - now.Mono))
	}
}

// end is for a drill that is on. The caller holds the lock.
func (e *Engine) end(r *Running, why protocol.DrillEnd) {
	e.running.Store(nil)
	close(r.done)
	e.timer.Stop()
	active.Set(0)
	endsTotal.WithLabelValues(string(why)).Inc()
	s := e.state(r)
	ended := clients.Now().Time()
	s.Ended, s.End = &ended, why
	e.last = s
	e.remember(r.order.ID)
	log.Infof("Drill %s of fleet %q has ended (%s) after %s: %d queries drilled, %d of them refused because too many were waiting",
		s.ID, s.Fleet, why, ended.Sub(s.Started).Round(time.Millisecond), s.Drilled, s.Overflow)
	e.changed()
}

// remember notes an id as ended. The caller holds the lock.
func (e *Engine) remember(id string) {
	if _, have := e.ended[id]; have {
		return
	}
	delete(e.ended, e.order[e.next])
	e.order[e.next] = id
	e.next = (e.next + 1) % endedKept
	e.ended[id] = struct{}{}
}

// State is the drill that is on, or else the one that ended last, or nil.
func (e *Engine) State() *protocol.DrillState {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.running.Load(); r != nil {
		return e.state(r)
	}
	return e.last
}

func (e *Engine) state(r *Running) *protocol.DrillState {
	return &protocol.DrillState{
		ID:        r.order.ID,
		Fleet:     r.order.Fleet,
		Mode:      r.order.Mode,
		Readiness: r.order.Readiness,
		Started:   r.started.Time(),
		EndsAt:    r.ends.Time(),
		LeaseEnds: r.lease.Time(),
		Drilled:   r.drilled.Load(),
		Overflow:  r.overflow.Load(),
	}
}

func recordingNow(now clients.Moment) *protocol.RecordingState {
	p := clients.Current()
	if p == nil {
		return nil
	}
	return p.Recording(now)
}

// ownPrefixes are what this server never drills, whatever it is told: the node
// itself, the addresses of its interfaces and those that it listens on, and what
// the Corefile calls infrastructure.
func ownPrefixes() ([]netip.Prefix, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	addrs := listening()
	for _, f := range found {
		if n, ok := f.(*net.IPNet); ok {
			// Only the address: of 127.0.0.1/8 that is 127.0.0.1, the rest are clients.
			if a, ok := netip.AddrFromSlice(n.IP); ok {
				addrs = append(addrs, a)
			}
		}
	}
	addrs = append(addrs, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
	var own []netip.Prefix
	for _, a := range addrs {
		a = clients.Normal(a)
		own = append(own, netip.PrefixFrom(a, a.BitLen()))
	}
	if p := clients.Current(); p != nil {
		own = append(own, p.InfrastructurePrefixes()...)
	}
	return own, nil
}

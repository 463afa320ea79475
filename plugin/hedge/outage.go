package hedge

import (
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// endedKept is how many ids of outages that ended are remembered, so that a late
// order cannot revive one.
const endedKept = 256

// Bounds of what is only shown.
const (
	maxFleet = 253
	maxText  = 1024
)

// outages holds the outage of this process, of which there is at most one. It
// belongs to the process, so that a reload does not end it.
var outages = &outageKeeper{ended: make(map[string]bool), guard: lastHealthy}

// outageKeeper takes one upstream away for a bounded time. With none, a question
// costs one atomic load.
type outageKeeper struct {
	current atomic.Pointer[outage]

	mu    sync.Mutex
	last  *protocol.OutageState
	ended map[string]bool
	order [endedKept]string // of ended, a ring
	next  int
	// guard says what speaks against taking an upstream away.
	guard func(netip.AddrPort) *protocol.Problem
}

// outage is one that is on.
type outage struct {
	order   protocol.OutageOrder
	addr    netip.AddrPort
	started time.Time // with the monotonic clock, like all that time.Now says
	ends    time.Time
	timer   *time.Timer
	hit     atomic.Uint64

	// Of an order with a lease; under the keeper's mu.
	lease     *time.Timer
	leaseEnds time.Time
}

// takes counts what is about to be sent to an upstream, and says whether it is to
// vanish.
func (k *outageKeeper) takes(addr netip.AddrPort) bool {
	o := k.current.Load()
	if o == nil || o.addr != addr {
		return false
	}
	o.hit.Add(1)
	return o.order.Kind == protocol.OutageBlackhole
}

// down says whether what an upstream answers counts as failed.
func (k *outageKeeper) down(addr netip.AddrPort) bool {
	o := k.current.Load()
	return o != nil && o.addr == addr && o.order.Kind == protocol.OutageDown
}

// leaseFor is how long an outage with a lease goes on without its order being
// sent again.
const leaseFor = protocol.LeaseSeconds * time.Second

// start begins an outage. The same order again keeps its lease, if it has one,
// and changes nothing else.
func (k *outageKeeper) start(address string, order protocol.OutageOrder) (*protocol.OutageState, *protocol.Problem) {
	addr, problem := checkOutage(address, order)
	if problem != nil {
		return nil, problem
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended[order.ID] {
		return nil, conflict(protocol.ReasonDrillEnded, "outage %q has ended on this server and stays ended: start another one", order.ID)
	}
	if o := k.current.Load(); o != nil {
		if o.order == order && o.addr == addr {
			o.renew()
			return k.state(o), nil
		}
		return nil, conflict(protocol.ReasonDrillRunning, "outage %q of %s is on until %s: wait for its end", o.order.ID, o.addr, o.ends.Format(time.RFC3339))
	}
	if problem := k.guard(addr); problem != nil {
		return nil, problem
	}
	length := time.Duration(order.DurationSeconds) * time.Second
	o := &outage{order: order, addr: addr, started: time.Now()}
	o.ends = o.started.Add(length)
	o.timer = time.AfterFunc(length, func() { k.end(o, protocol.EndExpired) })
	if order.Lease {
		o.lease = time.AfterFunc(leaseFor, func() { k.end(o, protocol.EndAbandoned) })
		o.renew()
	}
	k.current.Store(o)
	outageGauge.Set(1)
	log.Infof("Outage %s of fleet %q has started: upstream %s is %s for %s; asked for by %q: %q",
		order.ID, order.Fleet, addr, order.Kind, length, order.By, order.Reason)
	changed()
	return k.state(o), nil
}

// renew begins the lease anew, where there is one. The keeper's mu is held.
func (o *outage) renew() {
	if o.lease != nil {
		o.lease.Reset(leaseFor)
		o.leaseEnds = time.Now().Add(leaseFor)
	}
}

// stop ends an outage before its time. One that is not on, or not yet, is noted
// as ended.
func (k *outageKeeper) stop(address, id string) (*protocol.OutageState, *protocol.Problem) {
	if problem := protocol.CheckDrillID(id); problem != nil {
		return nil, problem
	}
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, badAddress(address)
	}
	if o := k.current.Load(); o != nil && o.order.ID == id && o.addr == addr {
		k.end(o, protocol.EndDeleted)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remember(id)
	if k.last != nil && k.last.ID == id {
		return k.last, nil
	}
	now := time.Now().UTC()
	return &protocol.OutageState{ID: id, Address: addr.String(), Ended: &now, End: protocol.EndDeleted}, nil
}

// end ends o, if it is on.
func (k *outageKeeper) end(o *outage, why protocol.DrillEnd) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current.Load() != o {
		return
	}
	k.current.Store(nil)
	o.timer.Stop()
	if o.lease != nil {
		o.lease.Stop()
	}
	outageGauge.Set(0)
	s := k.state(o)
	now := time.Now().UTC()
	s.Ended, s.End = &now, why
	k.last = s
	k.remember(o.order.ID)
	log.Infof("Outage %s of fleet %q has ended (%s): upstream %s is asked again; %d questions and probes were hit", s.ID, s.Fleet, why, s.Address, s.Hit)
	changed()
}

// remove ends whatever is on: nobody is left to ask.
func (k *outageKeeper) remove() {
	if o := k.current.Load(); o != nil {
		k.end(o, protocol.EndRemoved)
	}
}

// remember notes an id as ended. k.mu is held.
func (k *outageKeeper) remember(id string) {
	if k.ended[id] {
		return
	}
	delete(k.ended, k.order[k.next])
	k.order[k.next] = id
	k.next = (k.next + 1) % endedKept
	k.ended[id] = true
}

// now is the outage that is on, or else the one that ended last, or nil.
func (k *outageKeeper) now() *protocol.OutageState {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := k.current.Load(); o != nil {
		return k.state(o)
	}
	return k.last
}

func (k *outageKeeper) state(o *outage) *protocol.OutageState {
	s := &protocol.OutageState{
		ID: o.order.ID, Fleet: o.order.Fleet, Address: o.addr.String(), Kind: o.order.Kind,
		Started: o.started.UTC(), EndsAt: o.ends.UTC(), Hit: o.hit.Load(),
	}
	if o.lease != nil {
		at := o.leaseEnds.UTC()
		s.LeaseEnds = &at
	}
	return s
}

// checkOutage holds an order to its bounds: a server does not trust its
// controller to have done so.
func checkOutage(address string, o protocol.OutageOrder) (netip.AddrPort, *protocol.Problem) {
	addr, err := netip.ParseAddrPort(address)
	if err != nil || addr.Addr().Is4In6() {
		return addr, badAddress(address)
	}
	if problem := protocol.CheckDrillID(o.ID); problem != nil {
		return addr, problem
	}
	if o.Kind != protocol.OutageDown && o.Kind != protocol.OutageBlackhole {
		return addr, bad("kind", "%q: use %q or %q", o.Kind, protocol.OutageDown, protocol.OutageBlackhole)
	}
	if o.DurationSeconds < protocol.MinDrillSeconds || o.DurationSeconds > protocol.MaxDrillSeconds {
		return addr, bad("durationSeconds", "%d is out of bounds: an outage takes %d to %d seconds",
			o.DurationSeconds, protocol.MinDrillSeconds, protocol.MaxDrillSeconds)
	}
	for _, text := range []struct {
		field, value string
		most         int
	}{{"fleet", o.Fleet, maxFleet}, {"by", o.By, maxText}, {"reason", o.Reason, maxText}} {
		if len(text.value) > text.most {
			return addr, bad(text.field, "it has %d bytes: use at most %d", len(text.value), text.most)
		}
		if !utf8.ValidString(text.value) {
			return addr, bad(text.field, "it is not UTF-8")
		}
		for _, r := range text.value { // it goes into a log line
			if unicode.IsControl(r) {
				return addr, bad(text.field, "it has a control character (%U): use one line of text", r)
			}
		}
	}
	return addr, nil
}

func badAddress(address string) *protocol.Problem {
	return bad("address", "%q is no upstream's address: write IP:PORT, or [IP]:PORT for IPv6, as the state lists it", address)
}

func bad(field, format string, args ...any) *protocol.Problem {
	return protocol.NewProblem(http.StatusBadRequest, protocol.ReasonBadRequest, format, args...).In(field)
}

func conflict(reason protocol.Reason, format string, args ...any) *protocol.Problem {
	return protocol.NewProblem(http.StatusConflict, reason, format, args...)
}

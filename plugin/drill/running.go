package drill

import (
	"crypto/subtle"
	"net/netip"
	"sync/atomic"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/gaissmai/bart"
)

// Running is a drill that is on, as a query sees it: it never changes, and is
// replaced as a whole. Its methods take no lock and do not allocate.
type Running struct {
	*run
	// set says of every prefix that matters whether it is drilled. What is spared
	// wins over any target that is inside it, so one look-up of the longest prefix
	// is the whole answer.
	set *bart.Table[bool]
}

// run is what stays the same from a drill's start to its end.
type run struct {
	order    *order
	started  clients.Moment
	ends     clients.Moment
	lease    clients.Moment // guarded by the engine's lock
	done     chan struct{}  // closed at the end
	drilled  atomic.Uint64
	overflow atomic.Uint64
}

// Hits says whether the queries of a are drilled. a is as clients.Normal has it.
func (r *Running) Hits(a netip.Addr) bool {
	hit, _ := r.set.Lookup(a)
	return hit
}

// Mode is how they are.
func (r *Running) Mode() protocol.DrillMode { return r.order.Mode }

// Probe says whether token, the value of a query's protocol.ProbeOption, is this
// drill's: the controller's own probes are never drilled.
func (r *Running) Probe(token []byte) bool {
	return subtle.ConstantTimeCompare(token, r.order.token[:]) == 1
}

// Count counts a query that was drilled.
func (r *Running) Count() { r.drilled.Add(1) }

// targets builds the set of a drill: its targets, without the order's
// exclusions and without own, the prefixes that this server never drills.
func targets(o *order, own []netip.Prefix) *bart.Table[bool] {
	spared := new(bart.Lite)
	for _, p := range o.spared {
		spared.Insert(p)
	}
	for _, p := range own {
		spared.Insert(p)
	}
	set := new(bart.Table[bool])
	for p := range spared.All() {
		set.Insert(p, false)
	}
	for _, p := range o.targets {
		if !spared.LookupPrefix(p) { // not inside of anything spared
			set.Insert(p, true)
		}
	}
	return set
}

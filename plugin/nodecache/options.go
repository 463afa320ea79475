package nodecache

import (
	"math"
	"time"

	"github.com/coredns/coredns/plugin"
)

// What holds where the Corefile says nothing.
const (
	defaultBytes      = 32 << 20
	minBytes          = 1 << 20
	maxBytes          = 64 << 30
	defaultMaxTTL     = 30 // seconds; NodeLocal DNSCache's
	defaultMaxDenial  = 5
	defaultFailure    = 5 * time.Second
	maxFailure        = 5 * time.Minute // RFC 9520, 3.2
	defaultHold       = time.Hour
	defaultHoldOwn    = 10 * time.Minute
	maxHold           = 7 * 24 * time.Hour // RFC 8767, 5
	defaultStaleWait  = 200 * time.Millisecond
	defaultStaleTTL   = 30 // seconds; RFC 8767, 4
	defaultRecheck    = 5 * time.Second
	maxRecheck        = 5 * time.Minute
	defaultPrefetch   = 3
	maxPrefetch       = 255
	defaultGap        = time.Minute
	defaultPercent    = 10
	defaultPrefer     = 5 * time.Minute
	maxPrefer         = time.Hour
	defaultSnapshot   = 16 << 20
	defaultSnapshotIn = 5 * time.Minute
)

// ownZones are the cluster's own names. Their addresses are used again within
// minutes, by other pods, so they are not held for long after they expire.
var ownZones = []string{"cluster.local.", "in-addr.arpa.", "ip6.arpa."}

// options are what the Corefile says of one server block's cache.
type options struct {
	zones     []string
	lifetimes lifetimes

	disabledSuccess []string // zones
	disabledDenial  []string

	holdAll        time.Duration // after expiry; holdUnset: by the name
	staleWait      time.Duration // the client-response time of RFC 8767
	staleTTL       uint32
	failureRecheck time.Duration
	prefer         time.Duration // 0: off

	prefetch        int
	prefetchGap     time.Duration
	prefetchPercent int
}

const holdUnset = -1

func newOptions(zones []string) *options {
	return &options{
		zones: zones,
		lifetimes: lifetimes{
			positive: limits{most: defaultMaxTTL},
			negative: limits{most: defaultMaxDenial},
			failure:  uint32(defaultFailure / time.Second),
		},
		holdAll:         holdUnset,
		staleWait:       defaultStaleWait,
		staleTTL:        defaultStaleTTL,
		failureRecheck:  defaultRecheck,
		prefetch:        defaultPrefetch,
		prefetchGap:     defaultGap,
		prefetchPercent: defaultPercent,
	}
}

// covers says whether answers for name are cached at all.
func (o *options) covers(name string) bool { return plugin.Zones(o.zones).Matches(name) != "" }

// stores says whether an answer of a kind is kept.
func (o *options) stores(k kind, name string) bool {
	zones := o.disabledSuccess
	if k.denial() {
		zones = o.disabledDenial
	}
	return plugin.Zones(zones).Matches(name) == ""
}

// holdFor is how many seconds an answer may be served after it has expired.
func (o *options) holdFor(k kind, name string) uint32 {
	d := o.holdAll
	switch {
	case k == failure || k == unreachable:
		return 0
	case d == holdUnset && plugin.Zones(ownZones).Matches(name) != "":
		d = defaultHoldOwn
	case d == holdUnset:
		d = defaultHold
	}
	return uint32(min(d/time.Second, math.MaxInt32)) // #nosec G115 -- bounded
}

// keepsPositive says whether an answer that is held is kept although upstreams
// deny it now.
func (o *options) keepsPositive(old, e *entry, now int64) bool {
	return o.prefer > 0 && old.kind == positive && (e.kind == nxdomain || e.kind == nodata) &&
		now-old.stored < int64(old.ttl)*int64(time.Second)+int64(o.prefer)
}

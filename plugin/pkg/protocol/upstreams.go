package protocol

import "time"

// UpstreamState is what a server knows of one that it asks, for one zone: the
// same address can serve several zones, and be well for one of them.
type UpstreamState struct {
	Zone    string `json:"zone"`    // what is asked of it: "cluster.local."
	Address string `json:"address"` // IP:PORT
	// Healthy says that it is asked like any other, over the transport that is tried
	// first. An upstream without Loop that is not is ejected.
	Healthy bool `json:"healthy"`
	// Loop says that what is sent to it comes back to this server: it is not asked.
	Loop        bool                `json:"loop,omitempty"`
	Asked       uint64              `json:"asked"`       // clients' questions sent to it, probes aside
	LastAskedMs int64               `json:"lastAskedMs"` // Unix milliseconds; 0: never
	Transports  []UpstreamTransport `json:"transports"`  // the one that is tried first stands first
}

// UpstreamTransport is an upstream's health over one transport.
type UpstreamTransport struct {
	Transport    string     `json:"transport"` // udp, tcp, tls
	Ejected      bool       `json:"ejected"`
	Cause        string     `json:"cause,omitempty"` // of the last failure: silent, broken, answers
	Since        *time.Time `json:"since,omitempty"` // when it was last ejected or brought back
	ProbeAt      *time.Time `json:"probeAt,omitempty"`
	InFlight     int        `json:"inFlight"`
	Failed       uint64     `json:"failed"`
	P95Ms        float64    `json:"p95Ms"`
	LastAnswerMs int64      `json:"lastAnswerMs"` // Unix milliseconds; 0: never
}

// OutageKind is how an upstream is taken away.
type OutageKind string

const (
	OutageDown      OutageKind = "down"      // its answers and probes count as failed
	OutageBlackhole OutageKind = "blackhole" // what is sent to it vanishes
)

// OutageOrder takes one upstream away from a server: PUT PathUpstreams +
// address + "/outage". The address is IP:PORT, escaped as a path segment. The
// same order again is no change, but that it keeps the lease. It ends on the
// server's monotonic clock. With DELETE …?id= it ends before; an id that ended
// stays ended.
type OutageOrder struct {
	ID              string     `json:"id"`    // of the drill: 1 to 64 of [a-z0-9.-]
	Fleet           string     `json:"fleet"` // for logs
	Kind            OutageKind `json:"kind"`
	DurationSeconds int        `json:"durationSeconds"` // MinDrillSeconds to MaxDrillSeconds
	// Lease says that whoever gives the order sends it again while it is to last:
	// it ends when that has not been for LeaseSeconds.
	Lease  bool   `json:"lease,omitempty"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// OutageState is an outage as its server sees it. Ended is nil while it runs.
type OutageState struct {
	ID      string     `json:"id"`
	Fleet   string     `json:"fleet"`
	Address string     `json:"address"`
	Kind    OutageKind `json:"kind"`
	Started time.Time  `json:"started"`
	EndsAt  time.Time  `json:"endsAt"` // shown on the wall clock; kept on the monotonic one
	// LeaseEnds is when it ends unless the order is sent again; nil without a lease.
	LeaseEnds *time.Time `json:"leaseEnds,omitempty"`
	Ended     *time.Time `json:"ended,omitempty"`
	End       DrillEnd   `json:"end,omitempty"`
	Hit       uint64     `json:"hit"` // questions and probes that it took
}

package protocol

import "time"

// PathNodeLocal is where the node's own addresses are told: GET, answers
// NodeLocalState.
const PathNodeLocal = "/v1/nodelocal"

// FeatureNodeLocal in State.Features: the nodelocal plugin is on, PathNodeLocal.
const FeatureNodeLocal = "nodelocal"

// NodeLocalState is what a process has of its node.
type NodeLocalState struct {
	Generation string                `json:"generation"` // this process's id among those on the node
	Owner      bool                  `json:"owner"`      // it has the link; else a newer generation has
	OwnerSince *time.Time            `json:"ownerSince,omitempty"`
	Others     []NodeLocalGeneration `json:"others,omitempty"` // oldest first
	Link       string                `json:"link"`
	LinkKind   string                `json:"linkKind"` // dummy, ifb or loopback
	Rules      string                `json:"rules"`    // nftables, iptables or none; "": not chosen yet
	RulesAt    string                `json:"rulesAt,omitempty"`
	Port       uint16                `json:"port"`
	Ready      bool                  `json:"ready"`     // all addresses are captured
	Addresses  []NodeLocalAddress    `json:"addresses"` // sorted
	Repairs    uint64                `json:"repairs"`
	LastRepair *NodeLocalRepair      `json:"lastRepair,omitempty"`
}

// NodeLocalGeneration is another process that serves the node's addresses.
type NodeLocalGeneration struct {
	ID    string `json:"id"`
	PID   int    `json:"pid,omitempty"` // as this process's PID namespace has it
	Newer bool   `json:"newer"`
}

// NodeLocalAddress is one of the node's addresses.
type NodeLocalAddress struct {
	Address  string     `json:"address"`
	Captured bool       `json:"captured"`
	Since    *time.Time `json:"since,omitempty"`  // that it is captured
	Reason   string     `json:"reason,omitempty"` // why it is not: a constant
	Detail   string     `json:"detail,omitempty"` // the same for people, with what to do
}

// NodeLocalRepair is one thing that somebody else took away, put back.
type NodeLocalRepair struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

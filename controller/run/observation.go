package run

import (
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Observation is what the caller saw since the last Step. It is a snapshot:
// leaving something out means that it was not seen, not that it is gone.
type Observation struct {
	Facts Facts `json:"facts"`
	// Results of actions carried out since the last Step.
	Results []Result `json:"results,omitempty"`
	// Stats by server, as read last; only what was read since the last Step.
	Stats map[string]protocol.Stats `json:"stats,omitempty"`
	// Parts by server: recordings read since the last Step, without samples
	// while the recording runs, with them once it is frozen.
	Parts map[string]protocol.Recording `json:"parts,omitempty"`
	// Lookups of the run's monitors that ended since the last Step.
	Lookups []Lookup `json:"lookups,omitempty"`
	// Stop is somebody's wish to end it.
	Stop *StopWish `json:"stop,omitempty"`
	// Restarted: this is the first Step of another controller process.
	Restarted bool `json:"restarted,omitempty"`
}

// StopWish is somebody's wish to end a run.
type StopWish struct {
	By  string `json:"by"`
	Why string `json:"why,omitempty"`
}

// Lookup is one lookup of a monitor.
type Lookup struct {
	Name  string    `json:"name"`
	At    time.Time `json:"at"`
	Error string    `json:"error,omitempty"` // "" when it was answered
}

// ActionKind is what is to be done.
type ActionKind string

const (
	ActRecord   ActionKind = "record"   // PUT the recording on Server
	ActUnrecord ActionKind = "unrecord" // DELETE it
	ActOrder    ActionKind = "order"    // PUT the order on Server
	ActRenew    ActionKind = "renew"    // renew the order's lease
	ActEnd      ActionKind = "end"      // DELETE the order
)

// Action is something to be done on one server, by a call to its control
// endpoint with the boot ID given. The caller tries it once, within a second
// for ActRecord and five for the rest, and reports a Result; trying again is
// Step's decision.
type Action struct {
	Kind      ActionKind               `json:"kind"`
	Server    string                   `json:"server"`
	BootID    string                   `json:"bootId"`
	Recording *protocol.RecordingOrder `json:"recording,omitempty"` // of ActRecord
	Order     *protocol.Order          `json:"order,omitempty"`     // of ActOrder
	// Upstream of the server that ActOrder, ActRenew and ActEnd are about; "" where
	// the server itself is drilled.
	Upstream string                `json:"upstream,omitempty"`
	Outage   *protocol.OutageOrder `json:"outage,omitempty"` // of ActOrder and ActRenew, with Upstream
	Drill    string                `json:"drill"`            // the run's ID
}

// Result is what came of an Action.
type Result struct {
	Kind   ActionKind           `json:"kind"`
	Server string               `json:"server"`
	BootID string               `json:"bootId"`           // of the Action: the process that was asked
	Error  string               `json:"error,omitempty"`  // "" when it was done
	Reason protocol.Reason      `json:"reason,omitempty"` // of the problem document, where the server answered one
	Drill  *protocol.DrillState `json:"drill,omitempty"`  // of ActOrder, ActRenew, ActEnd
	At     time.Time            `json:"at"`
}

// Needs says what the caller is to look at while the run is in its phase.
type Needs struct {
	Facts    bool     // gather Facts about once a second (Seen not included)
	Seen     bool     // and with the seen tables, now
	AllStats bool     // read every server's Stats about once a second
	Parts    []string // read the Recording of these servers about once a second
	Samples  bool     // with samples: the whole part
	Monitors bool     // look up the monitors once a second
}

package run

import (
	"net/netip"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Stage is what a drill takes out.
type Stage string

// StageServer takes one server away from its targets.
const StageServer Stage = "server"

// Spec is what was asked for, frozen when the run is made.
type Spec struct {
	ID        string             `json:"id"` // unique, and sortable by time: 20261130-031500-ns1-k3v9
	Fleet     string             `json:"fleet"`
	Server    string             `json:"server"` // the one that is drilled, by its name in the fleet
	Stage     Stage              `json:"stage"`
	Upstream  string             `json:"upstream,omitempty"` // of StageUpstream: IP:PORT
	Mode      protocol.DrillMode `json:"mode"`
	Seconds   int                `json:"durationSeconds"`
	Readiness protocol.Readiness `json:"readiness"`
	Everyone  bool               `json:"everyone"`
	Clients   []string           `json:"clients,omitempty"` // as asked: addresses, prefixes, client names, groups
	Exclude   []string           `json:"exclude,omitempty"` // likewise
	Limits    Limits             `json:"limits"`
	Monitors  []Monitor          `json:"monitors,omitempty"`
	Reason    string             `json:"reason,omitempty"`
	By        string             `json:"by"`                 // the caller's name, or "schedule/NAME"
	Terminal  bool               `json:"terminal,omitempty"` // a person at a terminal: no reason is asked for
	Schedule  string             `json:"schedule,omitempty"` // the schedule that started it
	Timings   Timings            `json:"timings"`
	Requested time.Time          `json:"requested"`
	// ProbeToken lets the controller's own probes through (32 hex digits, random). No report shows it.
	ProbeToken string `json:"probeToken,omitempty"`
}

// Duration of the outage.
func (s Spec) Duration() time.Duration { return time.Duration(s.Seconds) * time.Second }

// Limits are what a run may find and still pass.
type Limits struct {
	Stuck         int     `json:"stuck"`         // clients with that verdict (0)
	ErrorPoints   float64 `json:"errorPoints"`   // errors above their usual share, in percentage points (1)
	ExpectSeconds int     `json:"expectSeconds"` // to notice, and to move (120)
}

// DefaultLimits are used where none are given.
var DefaultLimits = Limits{Stuck: 0, ErrorPoints: 1, ExpectSeconds: 120}

// Monitor is a name that a run looks up once a second as a stub resolver does,
// to see that nobody is hurt: two attempts, five seconds in all.
type Monitor struct {
	Name string `json:"name"`
	Type string `json:"type"` // A or AAAA
}

// Timings are a run's waits. Tests and the demo shorten them; a report says so.
type Timings struct {
	ReadingSeconds int `json:"readingSeconds"` // what errors look like before
	GapSeconds     int `json:"gapSeconds"`     // since the end of any other drill
	TailSeconds    int `json:"tailSeconds"`    // recordings run on past the end
	RetrySeconds   int `json:"retrySeconds"`   // how long missing parts are asked for after the tail
	ReturnSeconds  int `json:"returnSeconds"`  // from the end until it is asked who returned
	// IgnoreHealth skips the guard on the fleet's health; only where every server is on loopback.
	IgnoreHealth bool `json:"ignoreHealth,omitempty"`
}

// DefaultTimings are a real run's. Tail and retries together are the five minutes
// after the end of the outage in which a run is final, whatever is lost.
var DefaultTimings = Timings{ReadingSeconds: 30, GapSeconds: 600, TailSeconds: protocol.RecordingTailSeconds, RetrySeconds: 240, ReturnSeconds: 900}

// Waits that nothing shortens, in seconds.
const (
	AckSeconds  = 40  // from Out until the server took the order
	HeldSeconds = 30  // traffic moved for so long: held
	BackSeconds = 180 // until everything is as it was
)

// Targets are whom a drill is for, resolved and frozen at Asking.
type Targets struct {
	Everyone bool           `json:"everyone"`
	Prefixes []netip.Prefix `json:"prefixes"` // empty for everyone
	Exclude  []netip.Prefix `json:"exclude"`
}

// Match reports whether a is a target. An IPv4 address in IPv6 form counts as IPv4.
func (t Targets) Match(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	in := func(list []netip.Prefix) bool {
		for _, p := range list {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	return (t.Everyone || in(t.Prefixes)) && !in(t.Exclude)
}

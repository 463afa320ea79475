package run

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Version of the Run's data; a file of another version is not read.
const Version = 1

// Run is one execution of a drill: all that is known of it, as plain data. Make
// one with New, move it with Step. Times are on the controller's clock.
type Run struct {
	Version int       `json:"version"`
	Spec    Spec      `json:"spec"`
	Phase   Phase     `json:"phase"`
	Since   time.Time `json:"since"` // in this phase

	Outcome  Outcome   `json:"outcome,omitempty"` // set once it is final, or once it is being stopped
	Reason   Reason    `json:"reason,omitempty"`
	Message  string    `json:"message,omitempty"`
	Timeline []Event   `json:"timeline"`
	Findings []Finding `json:"findings,omitempty"`
	Checks   []Check   `json:"checks,omitempty"` // the guards at Asking

	// Frozen at Asking.
	Targets  Targets  `json:"targets"`
	SeenHour []string `json:"seenHour,omitempty"` // targets that the server saw in the hour before
	// SeenElsewhere are those of them that another server answered in the minute
	// before: they ask several servers all along.
	SeenElsewhere []string            `json:"seenElsewhere,omitempty"`
	Peers         map[string]*Peer    `json:"peers,omitempty"` // every server of the fleet, the drilled one among them
	Never         Targets             `json:"never"`
	Names         map[string]string   `json:"names,omitempty"`
	Before        map[string]Standing `json:"before,omitempty"` // as the servers stood

	// The outage. MustEndBy is written down before the order is sent: a
	// controller that finds it here after a restart knows what to put back.
	OrderSent time.Time `json:"orderSent,omitzero"`
	MustEndBy time.Time `json:"mustEndBy,omitzero"`
	Started   time.Time `json:"started,omitzero"` // the server took the order
	EndsAt    time.Time `json:"endsAt,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
	Returned  time.Time `json:"returned,omitzero"` // everything was as before
	NoticedAt time.Time `json:"noticedAt,omitzero"`
	MovedAt   time.Time `json:"movedAt,omitzero"`
	MovedSaid bool      `json:"movedSaid,omitempty"`
	SwitchAt  time.Time `json:"switchAt,omitzero"` // the balancer dropped it
	NextTry   time.Time `json:"nextTry,omitzero"`  // of the order, its renewal or its end
	Restarts  int       `json:"restarts,omitempty"`

	Traffic map[string]*Meter `json:"traffic,omitempty"` // by server
	// Flows are of StageUpstream: what the server asked, by zone and address.
	Flows   map[string]*Flow `json:"flows,omitempty"`
	Drilled map[string]int64 `json:"drilledAt,omitempty"` // first drilled query by client, Unix ms
	// DrilledQueries by client, as the server's recording said last.
	DrilledQueries map[string]int           `json:"drilledQueries,omitempty"`
	Answered       map[string]Answer        `json:"answered,omitempty"` // first answer elsewhere seen after it
	Lookups        map[string]*MonitorTally `json:"lookups,omitempty"`
	Order          *protocol.DrillState     `json:"order,omitempty"` // as the server said last

	Clients      []ClientReport `json:"clients,omitempty"` // once Done
	Unheard      []Unheard      `json:"unheard,omitempty"`
	ClockErrorMs int64          `json:"clockErrorMs,omitempty"`
	Amended      bool           `json:"amended,omitempty"`
}

// Peer is a server's part in the run.
type Peer struct {
	BootID   string `json:"bootId"`
	Version  string `json:"version"`
	OffsetMs int64  `json:"offsetMs"`
	ErrMs    int64  `json:"errMs"`
	Records  bool   `json:"records"` // it can record

	Listening bool      `json:"listening"` // it took our recording
	NextTry   time.Time `json:"nextTry,omitzero"`
	Asked     bool      `json:"asked"`   // at least once
	Replied   bool      `json:"replied"` // the first ask has come to something
	Error     string    `json:"error,omitempty"`
	Dropped   bool      `json:"dropped,omitempty"` // our recording was deleted there, or nothing is left of it

	Part *protocol.Recording `json:"part,omitempty"` // the whole, once read
}

// Standing is how a server stood before the drill.
type Standing struct {
	BootID  string `json:"bootId,omitempty"`
	Ready   bool   `json:"ready"`
	Routed  bool   `json:"routed"`
	Healthy bool   `json:"healthy"`
}

// Answer is an answer to a client by a server, Unix ms on the controller's clock.
type Answer struct {
	Server string `json:"server"`
	AtMs   int64  `json:"atMs"`
}

// MonitorTally counts a monitor's lookups while the server was out.
type MonitorTally struct {
	Lookups int    `json:"lookups"`
	Lost    int    `json:"lost"`
	Row     int    `json:"row"`     // lost in a row, now
	LongRow int    `json:"longRow"` // the most
	Error   string `json:"error,omitempty"`
}

// New is a run that has not begun.
func New(s Spec, now time.Time) Run {
	return Run{Version: Version, Spec: s, Phase: Planned, Since: now,
		Timeline: []Event{{At: now, What: "asked for by " + s.By}}}
}

// clone is a copy that shares nothing with r that Step changes.
func (r Run) clone() Run {
	r.Timeline = slices.Clone(r.Timeline)
	r.Findings = slices.Clone(r.Findings)
	r.Clients = slices.Clone(r.Clients)
	r.Peers = cloneMap(r.Peers)
	r.Traffic = cloneMap(r.Traffic)
	for _, m := range r.Traffic {
		m.Recent = slices.Clone(m.Recent)
	}
	r.Flows = cloneMap(r.Flows)
	for _, m := range r.Flows {
		m.Recent = slices.Clone(m.Recent)
	}
	r.Lookups = cloneMap(r.Lookups)
	r.Drilled = maps.Clone(r.Drilled)
	r.DrilledQueries = maps.Clone(r.DrilledQueries)
	r.Answered = maps.Clone(r.Answered)
	return r
}

func cloneMap[T any](in map[string]*T) map[string]*T {
	if in == nil {
		return nil
	}
	out := make(map[string]*T, len(in))
	for k, v := range in {
		c := *v
		out[k] = &c
	}
	return out
}

// Over reports whether nothing more will happen, the amendment included.
func (r Run) Over() bool { return (r.Phase == Refused || r.Phase == Done && r.Amended) && r.settled() }

// On reports whether the run may have changed something that is not yet put
// back, or is about to: one such run at a time.
func (r Run) On() bool { return !r.Phase.Final() }

// settled reports whether no recording of ours is known to be left.
func (r Run) settled() bool {
	for _, p := range r.Peers {
		if p.Asked && !p.Dropped {
			return false
		}
	}
	return true
}

func (r *Run) enter(p Phase, now time.Time, format string, args ...any) {
	r.Phase, r.Since = p, now
	r.note(now, format, args...)
}

func (r *Run) note(at time.Time, format string, args ...any) {
	r.Timeline = append(r.Timeline, Event{At: at, What: fmt.Sprintf(format, args...)})
}

// find adds a finding, once per reason.
func (r *Run) find(reason Reason, format string, args ...any) {
	for _, f := range r.Findings {
		if f.Reason == reason {
			return
		}
	}
	r.Findings = append(r.Findings, Finding{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// end makes the run go back: with an outcome and its reason, or with a finding.
func (r *Run) end(o Outcome, reason Reason, now time.Time, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if o == Failed {
		r.find(reason, "%s", message)
	}
	if r.Outcome == "" {
		r.Outcome, r.Reason, r.Message = o, reason, message
	}
	r.NextTry = time.Time{}
	if r.OrderSent.IsZero() { // nothing was changed for any client
		r.finish(now)
		return
	}
	r.enter(Back, now, "putting everything back: %s", message)
}

// drilled is the drilled server's part.
func (r *Run) drilled() *Peer { return r.Peers[r.Spec.Server] }

// corrected is a server's time (Unix ms) on the controller's clock; 0 stays 0.
func (p *Peer) corrected(ms int64) int64 {
	if ms == 0 {
		return 0
	}
	return ms - p.OffsetMs
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func parseAddr(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return a, false
	}
	return a.Unmap().WithZone(""), true
}

// neverDrilled are the addresses that no order may touch: loopback's own, and
// the fleet's servers.
func neverDrilled(f *Facts) Targets {
	never := Targets{Prefixes: loopback()}
	for _, t := range f.Servers {
		for _, a := range t.DNS {
			ip := a.Addr().Unmap().WithZone("")
			never.Prefixes = append(never.Prefixes, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	slices.SortFunc(never.Prefixes, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	never.Prefixes = slices.Compact(never.Prefixes)
	return never
}

package run

import (
	"net/netip"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Facts are what is known of the fleet at one moment: what guards are asked
// with, and stop rules judge by. Whoever gathers them says Heard: false of a
// server rather than leave it out.
type Facts struct {
	Now      time.Time     `json:"now"`
	Enabled  bool          `json:"enabled"` // drills.enabled of the controller
	Window   *Window       `json:"window,omitempty"`
	Servers  []ServerFacts `json:"servers"`            // of the fleet, in its order
	Others   []Other       `json:"others,omitempty"`   // drills of any fleet that are on or ended lately, this run not among them
	Rollout  string        `json:"rollout,omitempty"`  // one is running, queued, paused or baking: which
	Incident string        `json:"incident,omitempty"` // a firing alert or open incident on the fleet: which
	Headroom *Headroom     `json:"headroom,omitempty"` // nil: not known
	// Resolved are the spec's clients as addresses; Unresolved names that are none.
	Resolved   Targets  `json:"resolved"`
	Unresolved []string `json:"unresolved,omitempty"`
	// Infrastructure is what no drill touches, by the fleet file. It stands among
	// the exclusions of Resolved too.
	Infrastructure []netip.Prefix `json:"infrastructure,omitempty"`
	// StateError is why runs cannot be written down, "" where they can.
	StateError string `json:"stateError,omitempty"`
	// Usual is what clients get from the servers beside the spec's; nil: not read
	// yet. Step adds it, right before anything changes.
	Usual *Usual `json:"usual,omitempty"`
	// Balancer says that something takes servers out of use by asking their readiness.
	Balancer bool `json:"balancer,omitempty"`
	// MonitorsFrom is the address from which monitors ask; zero where nobody knows.
	MonitorsFrom netip.Addr `json:"monitorsFrom,omitzero"`
	// WithSeen: the seen tables were read for these facts (ServerFacts.Seen).
	WithSeen bool `json:"withSeen,omitempty"`
	// Names of clients by address, where known.
	Names map[string]string `json:"names,omitempty"`
}

// Server is the named server's facts, nil where there is none.
func (f *Facts) Server(name string) *ServerFacts {
	for i := range f.Servers {
		if f.Servers[i].Name == name {
			return &f.Servers[i]
		}
	}
	return nil
}

// ServerFacts are one server's. All times are corrected to the controller's clock.
type ServerFacts struct {
	Name      string           `json:"name"`
	DNS       []netip.AddrPort `json:"dns"`
	Heard     bool             `json:"heard"`           // its control endpoint answered within the last few seconds
	Error     string           `json:"error,omitempty"` // why not
	Since     time.Time        `json:"since"`           // heard or not heard since
	State     protocol.State   `json:"state"`           // the last one heard
	OffsetMs  int64            `json:"offsetMs"`        // its clock minus ours
	OffsetErr int64            `json:"offsetErrMs"`     // how far that can be off
	// Ready is what its readiness URL says; nil where none is known.
	Ready *bool `json:"ready,omitempty"`
	// Routed says whether the balancer sends it traffic; nil where there is none, or nobody can tell.
	Routed      *bool `json:"routed,omitempty"`
	Terminating bool  `json:"terminating,omitempty"`
	Cordoned    bool  `json:"cordoned,omitempty"`
	// LastAnswer to a client, LastProbe that the controller's own DNS question was answered.
	LastAnswer time.Time `json:"lastAnswer"`
	LastProbe  time.Time `json:"lastProbe"`
	ProbeError string    `json:"probeError,omitempty"` // of the newest probe; "" when it was answered
	// Seen are its clients of the last 7 days. Read for a plan and at Asking only.
	Seen []protocol.SeenClient `json:"seen,omitempty"`
}

// Has reports whether the server lists the feature.
func (s *ServerFacts) Has(feature string) bool {
	for _, f := range s.State.Features {
		if f == feature {
			return true
		}
	}
	return false
}

// incompatible says why nothing may be asked of a server that answers: its
// version is too far from ours, so that what it lists is not taken. "" where that
// is not so.
func (s *ServerFacts) incompatible() string {
	if s.Heard && len(s.State.Features) == 0 {
		return s.Error
	}
	return ""
}

// whyNoPart says why a server will have no part in a run as it is now, "" where it
// will have one.
func (s *ServerFacts) whyNoPart() string {
	switch {
	case !s.Heard:
		return "its control endpoint does not answer: " + orNothing(s.Error)
	case s.incompatible() != "":
		return s.incompatible()
	case !s.Has(protocol.FeatureRecordings):
		return "it cannot record: its Corefile has no \"clients\""
	}
	return ""
}

// Other is another drill.
type Other struct {
	ID     string    `json:"id"`
	Fleet  string    `json:"fleet"`
	Server string    `json:"server"`
	Ended  time.Time `json:"ended"` // zero: it is on
	// Schedule that started it, "" for a person.
	Schedule string `json:"schedule,omitempty"`
}

// Headroom is what the survivors have left.
type Headroom struct {
	Share float64 `json:"share"` // of their CPU limit that they would use, 0 to 1 and above
}

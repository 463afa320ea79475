package run

import (
	"time"
)

// Outcome is how a run ended.
type Outcome string

const (
	Passed  Outcome = "passed"  // noticed, moved, back, nothing found
	Failed  Outcome = "failed"  // it found something
	Stopped Outcome = "stopped" // ended by something or someone, no finding
	Refusal Outcome = "refused" // a guard said no; nothing was changed
)

// Verdict is what a drill showed of one client.
type Verdict string

const (
	Followed  Verdict = "followed"  // drilled, and answered by another server
	Stuck     Verdict = "stuck"     // 3 or more drilled, answered by no server of the fleet
	Quiet     Verdict = "quiet"     // too little asked to tell
	Elsewhere Verdict = "elsewhere" // a target that asked only another server
	Unknown   Verdict = "unknown"   // a server that may have answered was not heard
)

// Phase is where a run is.
type Phase string

const (
	Planned   Phase = "Planned"
	Reading   Phase = "Reading"
	Asking    Phase = "Asking"
	Out       Phase = "Out"
	Noticed   Phase = "Noticed"
	Held      Phase = "Held"
	Back      Phase = "Back"
	Recording Phase = "Recording"
	Done      Phase = "Done"
	Refused   Phase = "Refused"
)

// Final reports whether nothing more will happen but the amendment of the report.
func (p Phase) Final() bool { return p == Done || p == Refused }

// Report is a run as people and programs read it: one schema for the API, the
// CLI and files. While the run is on, Outcome is empty and what is not known
// yet is null. Times are on the controller's clock, seconds are decimal.
type Report struct {
	Schema  string  `json:"schema"` // SchemaVersion
	ID      string  `json:"id"`
	Fleet   string  `json:"fleet"`
	Server  string  `json:"server"`
	Phase   Phase   `json:"phase"`
	Outcome Outcome `json:"outcome"`
	Reason  Reason  `json:"reason"`  // why: a constant
	Message string  `json:"message"` // why, in words
	Spec    Spec    `json:"spec"`
	// Unsaved is why the run, as it is here, is not on the controller's disk yet;
	// left out where it is.
	Unsaved string `json:"unsaved,omitempty"`

	Verdicts Verdicts `json:"verdicts"`
	Coverage *float64 `json:"coverage"` // followed / (followed + stuck); null where nobody can be counted
	Lost     *int     `json:"lost"`     // questions that were drilled and answered nowhere else; null while the run is on, or where too little was heard
	// LostSampled: Lost is an estimate, from those questions that the servers had room for.
	LostSampled bool `json:"lostSampled"`
	// Drilled queries; while the run is on, as the server counted last. Of an
	// upstream: questions and probes that it did not get to answer.
	Drilled int `json:"drilled"`

	TimeToNoticeSeconds   *float64 `json:"timeToNoticeSeconds"`
	TimeToMoveSeconds     *float64 `json:"timeToMoveSeconds"`
	BalancerSwitchSeconds *float64 `json:"balancerSwitchSeconds"`
	HeldSeconds           *float64 `json:"heldSeconds"` // traffic was moved for so long
	BackSeconds           *float64 `json:"backSeconds"` // from the end until all was as before

	Started  *time.Time `json:"started"` // the outage
	Ended    *time.Time `json:"ended"`
	Timeline []Event    `json:"timeline"`
	Findings []Finding  `json:"findings"`
	Checks   []Check    `json:"checks"` // the guards, as they answered at Asking

	// What clients had from the servers that were to answer: from the survivors, or
	// where one of its upstreams was drilled, from the server itself.
	Baseline  *Traffic        `json:"baseline"`  // while Reading
	During    *Traffic        `json:"during"`    // in the outage
	Survivors []ServerReport  `json:"survivors"` // the same by server
	Monitors  []MonitorReport `json:"monitors"`
	// Upstreams of the drilled server; empty where none of them was drilled.
	Upstreams []UpstreamReport `json:"upstreams"`

	Clients      []ClientReport `json:"clients"`
	ClientsTotal int            `json:"clientsTotal"` // Clients may be a page
	Amended      bool           `json:"amended"`      // who returned has been asked

	Unheard      []Unheard         `json:"unheard"`      // servers that could not tell, or not from the start
	ClockErrorMs int64             `json:"clockErrorMs"` // how far failover times can be off
	Versions     map[string]string `json:"versions"`     // by server; "controller" is ours
	Shortened    []string          `json:"shortened"`    // waits that were shortened or checks that were ignored
}

// SchemaVersion of the report.
const SchemaVersion = "firebreak/report/v1"

// Verdicts are counts of clients.
type Verdicts struct {
	Followed  int `json:"followed"`
	Stuck     int `json:"stuck"`
	Quiet     int `json:"quiet"`
	Elsewhere int `json:"elsewhere"`
	Unknown   int `json:"unknown"`
}

// Event is a line of the timeline.
type Event struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// Finding is something that did not go as set; any makes the run failed.
type Finding struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// Traffic is what clients had from the survivors over a span of time.
type Traffic struct {
	Seconds    float64 `json:"seconds"`
	Queries    uint64  `json:"queries"`
	Answers    uint64  `json:"answers"`
	Errors     uint64  `json:"errors"`     // SERVFAIL and REFUSED
	ErrorShare float64 `json:"errorShare"` // of the answers, 0 to 1
	// DenialShare are NXDOMAIN, of the answers of those servers that count them.
	DenialShare        *float64 `json:"denialShare"`        // 0 to 1; null where none of them does, or there was no answer
	RetriesPerQuestion *float64 `json:"retriesPerQuestion"` // queries per question: 1 is none; null where nothing was asked
	P50Ms              *float64 `json:"p50Ms"`              // upper bounds of the buckets that answers are counted in; null where there was none
	P99Ms              *float64 `json:"p99Ms"`
}

// ServerReport is a survivor's traffic.
type ServerReport struct {
	Name     string  `json:"name"`
	Baseline Traffic `json:"baseline"`
	During   Traffic `json:"during"`
}

// UpstreamReport is what a server asked one of its upstreams.
type UpstreamReport struct {
	Address string  `json:"address"`
	Zone    string  `json:"zone"`
	Role    string  `json:"role"`            // drilled or other
	Before  float64 `json:"beforePerSecond"` // questions, while Reading
	During  float64 `json:"duringPerSecond"` // while the outage was on
	Asked   uint64  `json:"asked"`           // in the outage
	Ejected string  `json:"ejected"`         // why it was, in the outage; "" where it was not
}

// Roles in an UpstreamReport.
const (
	RoleDrilled = "drilled"
	RoleOther   = "other"
)

// MonitorReport counts a monitor's lookups while the server was out.
type MonitorReport struct {
	Name    string `json:"name"`
	Lookups int    `json:"lookups"`
	Lost    int    `json:"lost"`
	Row     int    `json:"row"` // most in a row
}

// ClientReport is one client's part.
type ClientReport struct {
	Address string  `json:"address"`
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Drilled int     `json:"drilled"` // queries
	// DrilledQuestions are those without the retries: what Lost is out of.
	DrilledQuestions int  `json:"drilledQuestions"`
	Lost             *int `json:"lost"` // questions; null where it is not known
	LostSampled      bool `json:"lostSampled,omitempty"`
	// FailoverSeconds from its first drilled query to its first answer elsewhere
	// after it; null where it did not follow, or asked both all along.
	FailoverSeconds *float64 `json:"failoverSeconds"`
	AnsweredBy      string   `json:"answeredBy,omitempty"` // the server that answered first
	Returned        Return   `json:"returned"`
}

// Return says whether a client that followed came back, asked ReturnSeconds after the end.
type Return string

const (
	Returned      Return = "returned" // it asks the server again
	Sticky        Return = "sticky"   // it asks others
	ReturnUnknown Return = "unknown"  // it asked nothing
	ReturnPending Return = ""         // not asked yet, or it did not follow
)

// Unheard is a server whose part is missing or began late.
type Unheard struct {
	Server string     `json:"server"`
	Why    string     `json:"why"`
	From   *time.Time `json:"from"` // it listened from then on; null: not at all
}

// Plan is what a drill would do: the answer to a dry run.
type Plan struct {
	Schema       string       `json:"schema"` // PlanSchemaVersion
	Fleet        string       `json:"fleet"`
	Server       string       `json:"server"`
	Spec         Spec         `json:"spec"`
	Allowed      bool         `json:"allowed"`
	Checks       []Check      `json:"checks"`  // every guard, in order
	Targets      []PlanClient `json:"targets"` // clients seen in the last hour that would be drilled
	TargetsTotal int          `json:"targetsTotal"`
	Warnings     []Warning    `json:"warnings"`
	Steps        []string     `json:"steps"` // what would happen, in order, with times
	Shortened    []string     `json:"shortened"`
}

// PlanSchemaVersion of the plan.
const PlanSchemaVersion = "firebreak/plan/v1"

// Check is a guard's answer.
type Check struct {
	Reason  Reason `json:"reason"` // what it would refuse with
	Passed  bool   `json:"passed"`
	Ignored bool   `json:"ignored,omitempty"` // not asked, on purpose
	Message string `json:"message"`
}

// PlanClient is a client that would be drilled.
type PlanClient struct {
	Address     string    `json:"address"`
	Name        string    `json:"name"`
	LastSeen    time.Time `json:"lastSeen"`
	Queries     uint64    `json:"queries"`
	SingleHomed bool      `json:"singleHomed"` // no other server answered it in 7 days
}

// Warning is something to know before starting.
type Warning struct {
	Kind    string   `json:"kind"` // a constant
	Message string   `json:"message"`
	Clients []string `json:"clients,omitempty"`
}

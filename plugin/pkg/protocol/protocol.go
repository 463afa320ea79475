// Package protocol holds the messages of a server's control endpoint: what a
// controller and a DNS server say to each other, as plain Go types in JSON.
//
// Both sides import it and nothing else of each other. A server decodes what
// it is told strictly (see Decode): a field that it does not know is an error,
// because an exclusion that is silently ignored would be an outage. So a
// controller sends only what State.Features lists. Answers are decoded
// leniently: a server one version newer may say more.
//
// Names are camelCase. Times are RFC 3339 in UTC where people read them, and
// Unix milliseconds (names end in Ms) where there are many. All of them are on
// the clock of the server that says them; correcting for its offset is the
// controller's work. Errors are Problem documents (RFC 9457).
package protocol

import "time"

// Routes of the control endpoint. {id} is a drill's ID.
const (
	PathState      = "/v1/state"       // GET State
	PathLive       = "/v1/live"        // GET: 200 while the server's Corefile serves
	PathReady      = "/v1/ready"       // GET: 200, or 503 with a Problem whose detail says what is not ready
	PathEvents     = "/v1/events"      // GET server-sent events; each one's data is a State
	PathStats      = "/v1/stats"       // GET Stats
	PathDrill      = "/v1/drill"       // PUT Order, answers DrillState
	PathDrills     = "/v1/drill/"      // + id: DELETE (end); + id + "/renew": POST; both answer DrillState
	PathRecordings = "/v1/recordings/" // + drill's id: PUT RecordingOrder, GET Recording, DELETE
	PathClients    = "/v1/clients"     // GET SeenPage
	PathUpstreams  = "/v1/upstreams/"  // + address + "/outage": PUT OutageOrder, DELETE (?id=); both answer OutageState
)

// BootHeader names the process that a call is meant for, by its boot ID. It is
// required on every call that changes something: another process answers 421
// (RFC 9110, 15.5.20) with ReasonOtherBoot and changes nothing.
const BootHeader = "Firebreak-Boot-Id"

// Features that a server may list in State.Features. What is not listed is
// never sent to it.
const (
	FeatureDrill      = "drill"      // the drill plugin is on: PathDrill, PathDrills
	FeatureRecordings = "recordings" // the clients plugin is on: PathRecordings, PathStats
	FeatureClients    = "clients"    // the clients plugin is on: PathClients
	FeatureUpstreams  = "upstreams"  // the hedge plugin is on: PathUpstreams
)

// Names in certificates: URI names of the subject, never an IP address, since
// those change with every pod.
const (
	// ServerURI is the name of every DNS server's certificate (server usage only).
	ServerURI = "urn:firebreak:server"
	// APIURI is the name of the controller's API certificate (server usage only).
	APIURI = "urn:firebreak:api"
	// ClientURIPrefix stands before a caller's name in its certificate
	// (client usage only): urn:firebreak:client:controller.
	ClientURIPrefix = "urn:firebreak:client:"
)

// State is what a server is and does right now.
type State struct {
	BootID       string          `json:"bootId"`   // random, new with every process
	Version      string          `json:"version"`  // semantic version of the build
	Features     []string        `json:"features"` // sorted
	Now          time.Time       `json:"now"`      // the server's own wall clock when it answered
	StartedAt    time.Time       `json:"startedAt"`
	Ready        *ReadyState     `json:"ready,omitempty"`
	Drill        *DrillState     `json:"drill,omitempty"`        // running, or the last one that ended
	Recording    *RecordingState `json:"recording,omitempty"`    // running or frozen; forgotten a while after its end
	LastAnswerMs int64           `json:"lastAnswerMs,omitempty"` // last time a client was answered with no error (Unix ms); 0: never
	// ProbeMark (hex) is random and new with every process. A query that carries it
	// in a ProbeOption is a controller's probe, and counts as no client's.
	ProbeMark string          `json:"probeMark,omitempty"`
	Upstreams []UpstreamState `json:"upstreams,omitempty"` // by zone, then address
	Outage    *OutageState    `json:"outage,omitempty"`    // of an upstream: running, or the last one that ended
}

// ReadyState says how this server's readiness is asked, as its Corefile has it.
type ReadyState struct {
	Configured bool `json:"configured"` // the ready plugin is there
	Continuous bool `json:"continuous"` // with "monitor continuously": it does not latch
}

// DrillMode is how a drilled query is treated.
type DrillMode string

const (
	ModeDrop    DrillMode = "drop"    // no answer at all: the nearest to a dead node
	ModeRefused DrillMode = "refused" // REFUSED, with extended error 14 where the query has EDNS (RFC 8914)
)

// Readiness says what the ready plugin reports while a drill is on.
type Readiness string

const (
	ReadinessFail Readiness = "fail" // not ready, as a failing server would
	ReadinessPass Readiness = "pass" // ready: the server stays in its Service and stops answering
)

// Bounds of a drill, checked by the controller and again by the server. They
// are not configurable: a longer drill is an outage.
const (
	MinDrillSeconds     = 15
	MaxDrillSeconds     = 300
	DefaultDrillSeconds = 60
	// LeaseSeconds after which a drill ends that nobody renewed.
	LeaseSeconds = 30
	// RecordingTailSeconds that a recording runs on past the drill's planned end.
	RecordingTailSeconds = 60
	// MaxRecordingSeconds that a recording may be planned for.
	MaxRecordingSeconds = 600
	// MaxPrefixes in each list of an Order.
	MaxPrefixes = 65536
)

// Order starts a drill: PUT PathDrill.
type Order struct {
	ID              string    `json:"id"`    // of the drill: 1 to 64 of [a-z0-9.-]
	Fleet           string    `json:"fleet"` // for logs and metrics
	Mode            DrillMode `json:"mode"`
	DurationSeconds int       `json:"durationSeconds"` // MinDrillSeconds to MaxDrillSeconds, from the moment it is accepted
	Readiness       Readiness `json:"readiness"`
	Everyone        bool      `json:"everyone"`   // every client; then Targets is empty
	Targets         []string  `json:"targets"`    // prefixes (CIDR); an address is a /32 or /128
	Exclude         []string  `json:"exclude"`    // prefixes that are left alone although they are targets
	Never           []string  `json:"never"`      // prefixes of the fleet's other servers
	ProbeToken      string    `json:"probeToken"` // 32 hex digits; see ProbeOption
	By              string    `json:"by"`         // who asked for it, for the audit line
	Reason          string    `json:"reason"`
}

// ProbeOption is the EDNS option (RFC 6891, local use) in which the
// controller's own probes carry the order's ProbeToken (16 bytes): such a query
// is never drilled. Its monitors carry none: they are to feel the drill.
//
// All of the controller's probes carry the server's ProbeMark in another one of
// these, if it has told one: that keeps them out of the counts, and lets nobody
// through a drill.
const ProbeOption = 65313

// ProbeMarkLength is that of a State's ProbeMark, in bytes.
const ProbeMarkLength = 16

// DrillEnd is why a drill ended.
type DrillEnd string

const (
	EndExpired   DrillEnd = "Expired"   // its duration is over
	EndDeleted   DrillEnd = "Deleted"   // its controller ended it
	EndAbandoned DrillEnd = "Abandoned" // nobody renewed it for LeaseSeconds
	EndRemoved   DrillEnd = "Removed"   // a Corefile reload took the drill plugin away
)

// DrillState is a drill as its server sees it. Ended is nil while it runs.
type DrillState struct {
	ID        string     `json:"id"`
	Fleet     string     `json:"fleet"`
	Mode      DrillMode  `json:"mode"`
	Readiness Readiness  `json:"readiness"`
	Started   time.Time  `json:"started"`
	EndsAt    time.Time  `json:"endsAt"` // shown on the wall clock; kept on the monotonic one
	LeaseEnds time.Time  `json:"leaseEnds"`
	Ended     *time.Time `json:"ended,omitempty"`
	End       DrillEnd   `json:"end,omitempty"`
	Drilled   uint64     `json:"drilled"`  // queries
	Overflow  uint64     `json:"overflow"` // of those, answered REFUSED because too many were already held
}

// RecordingOrder starts recording: PUT PathRecordings + drill's id. The same
// order again is no change; while another drill's is running it is refused
// (409, ReasonOtherRecording), which is what keeps two controllers from
// drilling at once.
type RecordingOrder struct {
	Fleet   string `json:"fleet"`
	Seconds int    `json:"seconds"` // planned length, tail included: 1 to MaxRecordingSeconds
	// Targets of the drill; their seen-table entries are not replaced while it runs. Everyone: none listed.
	Targets []string `json:"targets"`
}

// RecordingState says that a recording is there.
type RecordingState struct {
	Drill   string    `json:"drill"`
	Fleet   string    `json:"fleet"`
	Started time.Time `json:"started"`
	EndsAt  time.Time `json:"endsAt"`
	Frozen  bool      `json:"frozen"` // over: it can be read until it is replaced or forgotten
}

// Recording is what a server saw of each client while a drill of its fleet was on.
type Recording struct {
	RecordingState
	BootID  string           `json:"bootId"`
	NowMs   int64            `json:"nowMs"`   // the server's clock when it answered
	Dropped uint64           `json:"dropped"` // queries of clients for which there was no room
	Clients []RecordedClient `json:"clients"`
}

// SamplesPerClient is the most questions of one client that a recording keeps.
const SamplesPerClient = 64

// RecordedClient is one client in a Recording. Times are Unix milliseconds, 0: never.
type RecordedClient struct {
	Address          string `json:"address"`
	FirstMs          int64  `json:"firstMs"` // first and last query
	LastMs           int64  `json:"lastMs"`
	Queries          uint64 `json:"queries"`
	Answers          uint64 `json:"answers"`
	Errors           uint64 `json:"errors"` // of the answers: SERVFAIL or REFUSED (drilled ones are no answers)
	Retries          uint64 `json:"retries"`
	FirstAnswerMs    int64  `json:"firstAnswerMs"` // first and last answer that was no error
	LastAnswerMs     int64  `json:"lastAnswerMs"`
	Drilled          uint64 `json:"drilled"`          // queries
	DrilledQuestions uint64 `json:"drilledQuestions"` // of those, not retries of an earlier drilled one
	FirstDrilledMs   int64  `json:"firstDrilledMs"`
	LastDrilledMs    int64  `json:"lastDrilledMs"`
	AnsweredAfterMs  int64  `json:"answeredAfterMs"` // first answer here after the first drilled query here

	// Samples of its questions, see Sample. A question is kept when the low
	// SampleBits bits of its hash are 0; the server raises SampleBits when it
	// has no room, so that all servers keep the same questions. A client that
	// asks one question over and over cannot be thinned out so: then what came
	// after SamplesUntilMs is missing (0: nothing is).
	SampleBits     int      `json:"sampleBits"`
	SamplesUntilMs int64    `json:"samplesUntilMs"`
	Samples        []Sample `json:"samples,omitempty"`
}

// Sample is a question of one client: drilled here, or answered here. Retries
// of a drilled question stand in the same sample (LastMs): the very packet again,
// and other copies within 6 s of the first. One that was held until the drill
// ended and was answered then lasts until its answer.
//
// Answers to one question that are at most 5 s apart stand in one sample too.
// That hides nothing from whoever looks for the answer to a drilled question
// elsewhere, from its FirstMs to 6 s after its LastMs: that span is longer than
// any pause inside an answered sample, so if the two overlap there was an answer
// in it, and if they do not there was none.
type Sample struct {
	Hash    uint64 `json:"hash,string"` // of the lower-case name, type and class: QuestionHash
	Drilled bool   `json:"drilled"`     // else answered
	FirstMs int64  `json:"firstMs"`
	LastMs  int64  `json:"lastMs"`
}

// Stats are a server's counters since its start, clients' queries only. What a
// run compares is their differences.
type Stats struct {
	BootID    string `json:"bootId"`
	NowMs     int64  `json:"nowMs"`
	Queries   uint64 `json:"queries"`
	Questions uint64 `json:"questions"` // queries that are not retries
	Retries   uint64 `json:"retries"`
	Answers   uint64 `json:"answers"`
	ServFail  uint64 `json:"servfail"`
	Refused   uint64 `json:"refused"` // by policy, not by a drill
	Drilled   uint64 `json:"drilled"`
	// NXDomain are answers that a name does not exist; nil: an older server, which
	// does not count them.
	NXDomain *uint64 `json:"nxdomain,omitempty"`
	// LatencyMs are counts of answers by the time they took: bucket i counts
	// those of at most LatencyBoundsMs[i], the last one all above.
	LatencyMs []uint64 `json:"latencyMs"`
}

// LatencyBoundsMs are the upper bounds of Stats.LatencyMs, in milliseconds.
var LatencyBoundsMs = []float64{0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 10000}

// SeenClient is a client in the seen table.
type SeenClient struct {
	Address string    `json:"address"`
	Name    string    `json:"name,omitempty"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Queries uint64    `json:"queries"`
	Answers uint64    `json:"answers"`
	Errors  uint64    `json:"errors"`
	Retries uint64    `json:"retries"`
	// Daily are queries per UTC day: today's first, six days before it after.
	Daily [7]uint32 `json:"daily"`
}

// SeenPage is a page of the seen table, by address: GET PathClients?after=ADDRESS&limit=N.
type SeenPage struct {
	BootID  string       `json:"bootId"`
	NowMs   int64        `json:"nowMs"`
	Total   int          `json:"total"`
	Max     int          `json:"max"`
	Dropped uint64       `json:"dropped"` // clients replaced or not let in for lack of room, since start
	Clients []SeenClient `json:"clients"`
	Next    string       `json:"next,omitempty"` // after= of the next page; "" at the end
}

// MaxSeenPage is the most clients on one SeenPage.
const MaxSeenPage = 1000

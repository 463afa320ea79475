package run

// Reason is a constant that says why a run was refused, stopped or failed.
type Reason string

// Why a drill may not start: the guards.
const (
	DrillsOff      Reason = "DrillsOff"      // drills are not switched on, on the controller or on the server
	OutsideWindow  Reason = "OutsideWindow"  // not in the fleet's window, or it could not finish inside it
	TargetNotFound Reason = "TargetNotFound" // no such server
	TargetTooOld   Reason = "TargetTooOld"   // its version cannot drill
	TargetBusy     Reason = "TargetBusy"     // not reached, not ready, terminating or cordoned
	LastHealthy    Reason = "LastHealthy"    // no other server is ready and has answered in the last 5 minutes
	NoHealthCheck  Reason = "NoHealthCheck"  // nothing would notice
	DrillRunning   Reason = "DrillRunning"   // another drill is on
	TooSoon        Reason = "TooSoon"        // another one ended less than the gap ago
	RolloutRunning Reason = "RolloutRunning" // a rollout of the fleet is running, queued, paused or baking
	IncidentOpen   Reason = "IncidentOpen"   // the fleet's health is severe, an alert is firing, or the others' answers are no good
	NoHeadroom     Reason = "NoHeadroom"     // the survivors would be above 80 % of their CPU limit
	NoTargets      Reason = "NoTargets"      // no target was seen on the server in the last hour
	OutOfBounds    Reason = "OutOfBounds"    // duration, mode, readiness, stage or a limit not allowed
	ReasonMissing  Reason = "ReasonMissing"  // no reason given, and nobody at a terminal
	// StateNotWritable: the controller cannot write down what it does.
	StateNotWritable Reason = "StateNotWritable"
)

// Why a run failed: what it found.
const (
	ErrorsOnSurvivors Reason = "ErrorsOnSurvivors" // SERVFAIL and REFUSED above their usual share
	RetriesRising     Reason = "RetriesRising"     // the beginnings of an avalanche
	LatencyRising     Reason = "LatencyRising"     // likewise
	DenialsRising     Reason = "DenialsRising"     // NXDOMAIN far above its usual share
	AnswersTooSlow    Reason = "AnswersTooSlow"    // half of the answers come when clients have given up
	MonitorLost       Reason = "MonitorLost"       // three lookups of a monitor lost in a row
	NoneHealthy       Reason = "NoneHealthy"       // no other healthy server is left
	NotNoticed        Reason = "NotNoticed"        // nothing noticed by the end of the duration
	NotAcknowledged   Reason = "NotAcknowledged"   // the server did not take the order
	NotBack           Reason = "NotBack"           // not as it was within BackSeconds
	SlowToNotice      Reason = "SlowToNotice"      // slower than expectSeconds
	SlowToMove        Reason = "SlowToMove"        // likewise
	NotMoved          Reason = "NotMoved"          // clients still arriving at the end
	ClientsStuck      Reason = "ClientsStuck"      // more than limits.stuck
	NoEvidence        Reason = "NoEvidence"        // nobody had anything to tell
	Incomplete        Reason = "Incomplete"        // a part is missing where it matters
)

// Why a run was stopped: no finding.
const (
	StoppedByCaller Reason = "StoppedByCaller" // somebody stopped it
	SwitchedOff     Reason = "SwitchedOff"     // drills were switched off
	RolloutStarted  Reason = "RolloutStarted"  // of a workload that is not ours to queue
	IncidentOpened  Reason = "IncidentOpened"  // a real alert or incident on the fleet
	OtherServerLost Reason = "OtherServerLost" // a server failed that the drill did not touch
	ServerRestarted Reason = "ServerRestarted" // the drilled server's process is another one
	ServerLost      Reason = "ServerLost"      // the drilled server cannot be reached
	ControllerLost  Reason = "ControllerLost"  // the server ended it: its controller was away
)

// FailoverWorked is the reason of a run that passed.
const FailoverWorked Reason = "FailoverWorked"

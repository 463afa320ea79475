// Package view is what people and programs see of a controller: the messages of
// its HTTP API, and one rendering of each as a table, a live view and a page.
// The CLI, the API and the HTML report show the same model, so they cannot
// disagree.
package view

import (
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Routes of the API. {server} is a server's name, {id} a run's ID.
const (
	PathServers  = "/api/v1/servers"                // GET ServerList
	PathDrill    = "/api/v1/servers/{server}/drill" // POST DrillRequest: 202 run.Report, or 200 run.Plan where dryRun; DELETE StopRequest: 202 run.Report; GET run.Report of the one that is on, else 404
	PathDrills   = "/api/v1/drills"                 // GET DrillList: ?limit=, ?before=ID
	PathReport   = "/api/v1/drills/{id}"            // GET run.Report: ?clientsFrom=, ?clientsLimit=
	PathHTML     = "/api/v1/drills/{id}/html"       // GET the report as a page
	PathClients  = "/api/v1/clients"                // GET ClientList
	PathAffinity = "/api/v1/clients/affinity"       // GET AffinityList
)

// Reasons of the API's problem documents, beside protocol's. A refused drill is
// 409 with type …drill_refused and the guards' answers in Checks.
const ReasonDrillRefused protocol.Reason = "drill_refused"

// RefusedProblem is the problem document of a refused drill.
type RefusedProblem struct {
	protocol.Problem
	Reason run.Reason  `json:"reason"` // of the first guard that refused
	Checks []run.Check `json:"checks"` // those that refused
}

// DrillRequest asks for a drill, or for its plan. What is left out has the
// default said in docs/api.md.
type DrillRequest struct {
	Stage           run.Stage          `json:"stage,omitempty"`           // server; upstream where Upstream is given
	Upstream        string             `json:"upstream,omitempty"`        // of the server: IP or IP:PORT
	Mode            protocol.DrillMode `json:"mode,omitempty"`            // drop; of an upstream blackhole
	DurationSeconds int                `json:"durationSeconds,omitempty"` // 60
	Readiness       protocol.Readiness `json:"readiness,omitempty"`       // fail
	Everyone        bool               `json:"everyone,omitempty"`        // else Clients must name somebody
	Clients         []string           `json:"clients,omitempty"`         // addresses, prefixes, client names, groups
	Exclude         []string           `json:"exclude,omitempty"`
	Limits          *run.Limits        `json:"limits,omitempty"`
	Monitors        []run.Monitor      `json:"monitors,omitempty"`
	Reason          string             `json:"reason,omitempty"`
	Terminal        bool               `json:"terminal,omitempty"` // a person at a terminal asks
	DryRun          bool               `json:"dryRun,omitempty"`
}

// StopRequest is the optional body of a DELETE.
type StopRequest struct {
	Why string `json:"why,omitempty"`
}

// ServerList is the fleet as it is.
type ServerList struct {
	Fleet   string   `json:"fleet"`
	Enabled bool     `json:"enabled"` // drills.enabled
	Servers []Server `json:"servers"`
}

// Server is one server of the fleet.
type Server struct {
	Name       string               `json:"name"`
	DNS        []string             `json:"dns"`
	Control    string               `json:"control"`
	Heard      bool                 `json:"heard"`
	Error      string               `json:"error,omitempty"`
	Version    string               `json:"version,omitempty"`
	BootID     string               `json:"bootId,omitempty"`
	Features   []string             `json:"features,omitempty"`
	Ready      *bool                `json:"ready,omitempty"`
	OffsetMs   int64                `json:"offsetMs"`
	OffsetErr  int64                `json:"offsetErrMs"`
	LastAnswer *time.Time           `json:"lastAnswer,omitempty"`
	LastProbe  *time.Time           `json:"lastProbe,omitempty"`
	Drill      *protocol.DrillState `json:"drill,omitempty"`
	// Upstreams that it asks, and the outage of one of them, where it has hedge.
	Upstreams []protocol.UpstreamState `json:"upstreams,omitempty"`
	Outage    *protocol.OutageState    `json:"outage,omitempty"`
}

// DrillList is a page of runs, newest first.
type DrillList struct {
	Drills []DrillRow `json:"drills"`
	Next   string     `json:"next,omitempty"` // before= of the next page
}

// DrillRow is a run in a list.
type DrillRow struct {
	ID        string             `json:"id"`
	Server    string             `json:"server"`
	Phase     run.Phase          `json:"phase"`
	Outcome   run.Outcome        `json:"outcome"`
	Reason    run.Reason         `json:"reason"`
	Upstream  string             `json:"upstream,omitempty"` // that was drilled, of the server
	Mode      protocol.DrillMode `json:"mode"`
	Seconds   int                `json:"durationSeconds"`
	Verdicts  run.Verdicts       `json:"verdicts"`
	Coverage  *float64           `json:"coverage"`
	Lost      *int               `json:"lost"` // null: not known, or not yet
	By        string             `json:"by"`
	Schedule  string             `json:"schedule,omitempty"`
	Requested time.Time          `json:"requested"`
	Unsaved   string             `json:"unsaved,omitempty"` // why it is not on the controller's disk yet
}

// ClientList are the clients of all servers, merged.
type ClientList struct {
	Clients []Client `json:"clients"`
	Unheard []string `json:"unheard"` // servers whose table could not be read
}

// Client is one client over all servers.
type Client struct {
	Address string    `json:"address"`
	Name    string    `json:"name"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Queries uint64    `json:"queries"`
	Answers uint64    `json:"answers"`
	Errors  uint64    `json:"errors"`
	Retries uint64    `json:"retries"`
	Servers []string  `json:"servers"` // that it asked in the last 7 days
}

// AffinityList says who asks which server: who has a second one in use, and
// who was never seen on any other.
type AffinityList struct {
	Servers []string   `json:"servers"` // the columns
	Clients []Affinity `json:"clients"`
	Unheard []string   `json:"unheard"`
}

// Affinity is one client's queries of the last 7 days by server.
type Affinity struct {
	Address     string    `json:"address"`
	Name        string    `json:"name"`
	Queries     []uint64  `json:"queries"` // one a column
	Share       float64   `json:"share"`   // of its favourite server, 0 to 1
	Favourite   string    `json:"favourite"`
	SingleHomed bool      `json:"singleHomed"` // no other server answered it
	Last        time.Time `json:"last"`
}

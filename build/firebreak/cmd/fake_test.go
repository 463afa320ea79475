package cmd

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// fake is a controller whose drills take half a second. What they end with is
// in the server's name: failing, stopping, refusing; slow ones never end by
// themselves.
type fake struct {
	mu    sync.Mutex
	runs  []*run.Report // newest first
	begun map[string]time.Time
	got   []view.DrillRequest
}

const fakeLength = 500 * time.Millisecond

func (f *fake) serve(l net.Listener) {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET "+view.PathServers, func(w http.ResponseWriter, _ *http.Request) {
		yes := true
		answer(w, 200, view.ServerList{Fleet: "home", Enabled: true, Servers: []view.Server{
			{Name: "ns1", DNS: []string{"192.0.2.1:53"}, Heard: true, Ready: &yes, Version: "1.0.0"}, {Name: "ns2", DNS: []string{"192.0.2.2:53"}, Error: "connection refused"}}})
	})
	mux.HandleFunc("GET "+view.PathClients, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, view.ClientList{Clients: []view.Client{{Address: "192.0.2.21", Name: "laptop", Queries: 12, Servers: []string{"ns1"}}}, Unheard: []string{"ns2"}})
	})
	mux.HandleFunc("GET "+view.PathAffinity, func(w http.ResponseWriter, r *http.Request) {
		p := protocol.NewProblem(403, protocol.ReasonForbidden, "carol has no role here")
		p.Write(w)
	})
	mux.HandleFunc("GET "+view.PathDrills, func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		list := view.DrillList{Drills: []view.DrillRow{}}
		for _, r := range f.runs {
			r = f.now(r)
			list.Drills = append(list.Drills, view.DrillRow{ID: r.ID, Server: r.Server, Phase: r.Phase, Outcome: r.Outcome, Reason: r.Reason, Coverage: r.Coverage, By: "alice", Requested: r.Spec.Requested})
		}
		answer(w, 200, list)
	})
	mux.HandleFunc("GET /api/v1/drills/{id}", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, x := range f.runs {
			if x.ID == r.PathValue("id") {
				x = f.now(x)
				if from := r.URL.Query().Get("clientsFrom"); from == "" && len(x.Clients) > 2 {
					x.Clients = x.Clients[:2] // a page
				} else if from == "2" {
					x.Clients = x.Clients[2:]
				}
				answer(w, 200, x)
				return
			}
		}
		protocol.NewProblem(404, protocol.ReasonNotFound, "there is no drill %q: the last 50 are kept, /api/v1/drills lists them", r.PathValue("id")).Write(w)
	})
	mux.HandleFunc("POST /api/v1/servers/{server}/drill", func(w http.ResponseWriter, r *http.Request) {
		var ask view.DrillRequest
		if err := protocol.Decode(r.Body, &ask); err != nil {
			protocol.NewProblem(400, protocol.ReasonBadRequest, "%v", err).Write(w)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.got = append(f.got, ask)
		server := r.PathValue("server")
		checks := []run.Check{{Reason: run.DrillsOff, Passed: true, Message: "drills are on"}, {Reason: run.LastHealthy, Passed: server != "refusing", Message: "ns2 answered 1 s ago"}}
		if server == "refusing" {
			checks[1].Message = "no other server is ready"
		}
		spec := run.Spec{Server: server, Mode: ask.Mode, Seconds: ask.DurationSeconds, Everyone: ask.Everyone, Clients: ask.Clients, Exclude: ask.Exclude, Reason: ask.Reason, Requested: time.Now()}
		for i, name := range append(append([]string{}, ask.Clients...), ask.Exclude...) {
			if name == "nobody" {
				protocol.NewProblem(400, protocol.ReasonBadRequest, "%q is not known: name an address, a prefix or a group", name).In(fmt.Sprintf("clients[%d]", i)).Write(w)
				return
			}
		}
		if server == "bounded" { // a controller with narrower bounds than this program knows
			checks = []run.Check{{Reason: run.OutOfBounds, Message: "limits.stuck: it is 3; it is to be 0"}, checks[0]}
		}
		switch {
		case server == "bounded" && !ask.DryRun:
			p := view.RefusedProblem{Problem: *protocol.NewProblem(409, view.ReasonDrillRefused, "refused"), Reason: run.OutOfBounds, Checks: checks[:1]}
			w.Header().Set("Content-Type", protocol.ProblemMedia)
			w.WriteHeader(409)
			_ = json.NewEncoder(w).Encode(p)
		case ask.DryRun:
			answer(w, 200, run.Plan{Fleet: "home", Server: server, Spec: spec, Allowed: run.FirstRefusal(checks) == nil, Checks: checks,
				Targets:  []run.PlanClient{{Address: "192.0.2.21", Name: "laptop", SingleHomed: true}, {Address: "192.0.2.22", Name: "phone"}},
				Warnings: []run.Warning{{Kind: run.WarnSingleHomed, Message: "1 client: no other server answered them in 7 days", Clients: []string{"192.0.2.21"}}}, TargetsTotal: 2})
		case server == "refusing":
			p := view.RefusedProblem{Problem: *protocol.NewProblem(409, view.ReasonDrillRefused, "refused"), Reason: run.LastHealthy, Checks: checks[1:]}
			w.Header().Set("Content-Type", protocol.ProblemMedia)
			w.WriteHeader(409)
			_ = json.NewEncoder(w).Encode(p)
		default:
			now := time.Now()
			x := &run.Report{Schema: run.SchemaVersion, ID: fmt.Sprintf("20261130-03150%d-%s-abcd", len(f.runs), server), Fleet: "home", Server: server, Phase: run.Out, Spec: spec, Started: &now}
			f.runs = append([]*run.Report{x}, f.runs...)
			f.begun[x.ID] = now
			answer(w, 202, x)
		}
	})
	mux.HandleFunc("DELETE /api/v1/servers/{server}/drill", func(w http.ResponseWriter, r *http.Request) {
		var ask view.StopRequest
		_ = protocol.Decode(r.Body, &ask)
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, x := range f.runs {
			if x.Server == r.PathValue("server") {
				x.Phase, x.Outcome, x.Reason, x.Message = run.Done, run.Stopped, run.StoppedByCaller, "stopped by alice: "+ask.Why
				answer(w, 202, x)
				return
			}
		}
		protocol.NewProblem(404, protocol.ReasonNotFound, "no drill of %q is on; those that were are under /api/v1/drills", r.PathValue("server")).Write(w)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		protocol.NewProblem(404, protocol.ReasonNotFound, "nothing at %s", r.URL.Path).Write(w)
	})
	_ = http.Serve(l, mux)
}

// now is a run as it is by now.
func (f *fake) now(r *run.Report) *run.Report {
	if r.Outcome == "" && time.Since(f.begun[r.ID]) > fakeLength && !strings.HasPrefix(r.Server, "slow") {
		end, coverage := r.Started.Add(fakeLength), 1.0
		r.Phase, r.Ended, r.Outcome, r.Reason, r.Message, r.Coverage = run.Done, &end, run.Passed, run.FailoverWorked, "all was well", &coverage
		r.Verdicts.Followed = 3
		for i, name := range []string{"laptop", "phone", "tablet"} {
			s := 1.5 + float64(i)
			r.Clients = append(r.Clients, run.ClientReport{Address: fmt.Sprintf("192.0.2.2%d", i+1), Name: name, Verdict: run.Followed, FailoverSeconds: &s, AnsweredBy: "ns2", Drilled: 3})
		}
		r.ClientsTotal = 3
		switch r.Server {
		case "failing":
			r.Outcome, r.Reason, r.Message = run.Failed, run.ClientsStuck, "1 client is stuck"
			r.Findings = []run.Finding{{Reason: run.ClientsStuck, Message: r.Message}}
		case "stopping":
			r.Outcome, r.Reason, r.Message = run.Stopped, run.SwitchedOff, "drills were switched off"
		}
	}
	c := *r
	return &c
}

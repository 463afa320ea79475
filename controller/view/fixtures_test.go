package view

import (
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

var start = time.Date(2026, 11, 30, 3, 15, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func after(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }

func fixtureSpec() run.Spec {
	return run.Spec{
		ID: "20261130-031430-ns1-k3v9", Fleet: "home", Server: "ns1", Stage: run.StageServer, Mode: protocol.ModeDrop, Seconds: 60,
		Readiness: protocol.ReadinessFail, Everyone: true, Exclude: []string{"192.0.2.0/28"}, Limits: run.DefaultLimits,
		Monitors: []run.Monitor{{Name: "www.example.com.", Type: "A"}}, Reason: "before the move to the new rack", By: "alice",
		Timings: run.DefaultTimings, Requested: after(-31),
	}
}

// failed is a run with a bit of everything in it.
func failed() *run.Report {
	return &run.Report{
		Schema: run.SchemaVersion, ID: "20261130-031430-ns1-k3v9", Fleet: "home", Server: "ns1", Phase: run.Done,
		Outcome: run.Failed, Reason: run.ClientsStuck, Message: "1 client is stuck; none is allowed to be", Spec: fixtureSpec(),
		Verdicts: run.Verdicts{Followed: 5, Stuck: 1, Quiet: 2, Elsewhere: 1, Unknown: 1}, Coverage: ptr(5.0 / 6), Lost: ptr(14), LostSampled: true, Drilled: 1187,
		TimeToNoticeSeconds: ptr(4.2), TimeToMoveSeconds: ptr(10.1), BalancerSwitchSeconds: nil, HeldSeconds: ptr(49.9), BackSeconds: ptr(2.3),
		Started: ptr(after(0)), Ended: ptr(after(60)),
		Timeline: []run.Event{
			{At: after(-31), What: "asked for by alice"}, {At: after(-1), What: "every guard agreed"}, {At: after(0), What: "ns1 took the order"},
			{At: after(4.2), What: "noticed: ns1 says that it is not ready"}, {At: after(10.1), What: "moved: 90 % of the drilled clients were answered elsewhere"},
			{At: after(60), What: "the drill is over"}, {At: after(62.3), What: "ns1 is as it was"}, {At: after(120), What: "every recording was read"},
		},
		Findings: []run.Finding{{Reason: run.ClientsStuck, Message: "1 client is stuck; none is allowed to be"},
			{Reason: run.RetriesRising, Message: "survivors were asked 1.42 times per question for 3 s, 1.02 before"}},
		Checks:   plan(true).Checks,
		Baseline: &run.Traffic{Seconds: 30, Queries: 41233, Answers: 41233, Errors: 12, ErrorShare: 12.0 / 41233, DenialShare: new(0.412), RetriesPerQuestion: new(1.02), P50Ms: new(0.2), P99Ms: new(3.0)},
		During:   &run.Traffic{Seconds: 60, Queries: 121904, Answers: 121900, Errors: 40, ErrorShare: 40.0 / 121900, DenialShare: new(0.4055), RetriesPerQuestion: new(1.42), P50Ms: new(0.35), P99Ms: new(15.0)},
		Survivors: []run.ServerReport{
			{Name: "ns2", Baseline: run.Traffic{Seconds: 30, Queries: 20500, Answers: 20500, Errors: 12, ErrorShare: 12.0 / 20500, DenialShare: new(0.412), RetriesPerQuestion: new(1.02), P50Ms: new(0.2), P99Ms: new(3.0)},
				During: run.Traffic{Seconds: 60, Queries: 70904, Answers: 70900, Errors: 40, ErrorShare: 40.0 / 70900, DenialShare: new(0.4055), RetriesPerQuestion: new(1.5), P50Ms: new(0.35), P99Ms: new(15.0)}},
			{Name: "ns3", Baseline: run.Traffic{Seconds: 30, Queries: 20733, Answers: 20733, RetriesPerQuestion: new(1.01), P50Ms: new(0.2), P99Ms: new(2.0)},
				During: run.Traffic{Seconds: 60, Queries: 51000, Answers: 51000, RetriesPerQuestion: new(1.3), P50Ms: new(0.2), P99Ms: new(5.0)}},
		},
		Monitors: []run.MonitorReport{{Name: "www.example.com.", Lookups: 60, Lost: 1, Row: 1}},
		Clients: []run.ClientReport{
			{Address: "192.0.2.21", Name: "laptop", Verdict: run.Followed, Drilled: 12, Lost: ptr(0), FailoverSeconds: ptr(5.004), AnsweredBy: "ns2", Returned: run.Returned},
			{Address: "192.0.2.22", Name: "phone", Verdict: run.Followed, Drilled: 8, Lost: ptr(1), FailoverSeconds: ptr(2.51), AnsweredBy: "ns2", Returned: run.Sticky},
			{Address: "192.0.2.23", Name: "node/worker-1", Verdict: run.Followed, Drilled: 1020, Lost: ptr(0), FailoverSeconds: ptr(0.02), AnsweredBy: "ns3", Returned: run.Returned},
			{Address: "192.0.2.24", Verdict: run.Followed, Drilled: 20, Lost: ptr(3), LostSampled: true, FailoverSeconds: ptr(10.1), AnsweredBy: "ns3", Returned: run.ReturnUnknown},
			{Address: "192.0.2.25", Name: "printer", Verdict: run.Followed, Drilled: 6, Lost: ptr(0), FailoverSeconds: nil, AnsweredBy: "ns2", Returned: run.Returned},
			{Address: "192.0.2.31", Name: "thermostat", Verdict: run.Stuck, Drilled: 118, Lost: ptr(10)},
			{Address: "192.0.2.32", Name: "doorbell", Verdict: run.Quiet, Lost: ptr(0)},
			{Address: "192.0.2.33", Name: "tv", Verdict: run.Quiet, Drilled: 1, Lost: ptr(0)},
			{Address: "2001:db8::17", Name: "tablet", Verdict: run.Elsewhere, Lost: ptr(0)},
			{Address: "192.0.2.40", Name: "camera", Verdict: run.Unknown, Drilled: 3}, // what it lost is not known
		},
		ClientsTotal: 10, Amended: true,
		Unheard:      []run.Unheard{{Server: "ns3", Why: "its recording began late", From: ptr(after(7))}, {Server: "ns4", Why: "no route to its control endpoint"}},
		ClockErrorMs: 3, Versions: map[string]string{"controller": "0.9.0", "ns1": "0.9.0", "ns2": "0.9.0", "ns3": "0.8.4"},
		Shortened: []string{"TailSeconds: 10 instead of 60"},
	}
}

// passed is a run as one hopes for.
func passed() *run.Report {
	r := failed()
	r.Outcome, r.Reason, r.Message = run.Passed, run.FailoverWorked, "all 4 clients that asked were answered by another server"
	r.Findings, r.Unheard, r.Shortened = nil, nil, nil
	r.Clients = r.Clients[:4]
	r.ClientsTotal, r.Verdicts, r.Coverage, r.Lost, r.LostSampled = 4, run.Verdicts{Followed: 4}, ptr(1.0), ptr(0), false
	r.Clients[1].Lost, r.Clients[3].Lost = ptr(0), ptr(0)
	return r
}

// upstream is a drill of a cache's upstream that went well.
func upstream() *run.Report {
	s := fixtureSpec()
	s.Stage, s.Upstream, s.Mode, s.Readiness, s.Exclude = run.StageUpstream, "10.0.0.53:53", run.ModeBlackhole, "", nil
	before := run.Traffic{Seconds: 30, Queries: 3000, Answers: 2999, Errors: 3, ErrorShare: 3.0 / 2999, DenialShare: new(0.61), RetriesPerQuestion: new(1.0), P50Ms: new(0.2), P99Ms: new(5.0)}
	during := run.Traffic{Seconds: 60, Queries: 6100, Answers: 6100, Errors: 6, ErrorShare: 6.0 / 6100, DenialShare: new(0.6), RetriesPerQuestion: new(1.01), P50Ms: new(0.2), P99Ms: new(15.0)}
	return &run.Report{Schema: run.SchemaVersion, ID: s.ID, Fleet: s.Fleet, Server: s.Server, Phase: run.Done, Outcome: run.Passed, Reason: run.FailoverWorked,
		Message: "ns1 ejected 10.0.0.53:53 after 0.8 s; of the 6100 answers to its clients meanwhile 6 were errors", Spec: s, Drilled: 31,
		TimeToNoticeSeconds: ptr(0.81), TimeToMoveSeconds: ptr(0.9), HeldSeconds: ptr(59.1), BackSeconds: ptr(4.2), Started: ptr(start), Ended: ptr(after(60)),
		Timeline: []run.Event{{At: after(0), What: "ns1 took the order (blackhole 10.0.0.53:53)"}, {At: after(0.81), What: "ns1 ejected 10.0.0.53:53 for zone \".\" (silent)"}},
		Baseline: &before, During: &during, Survivors: []run.ServerReport{{Name: "ns1", Baseline: before, During: during}},
		Upstreams: []run.UpstreamReport{
			{Address: "10.0.0.53:53", Zone: ".", Role: run.RoleDrilled, Before: 14.6, During: 0.3, Asked: 19, Ejected: "silent"},
			{Address: "10.0.0.54:53", Zone: ".", Role: run.RoleOther, Before: 15.2, During: 30.1, Asked: 1806}},
		Amended: true, Versions: map[string]string{"controller": "0.9.0", "ns1": "0.9.0"}}
}

// refused never began.
func refused() *run.Report {
	s := fixtureSpec()
	return &run.Report{Schema: run.SchemaVersion, ID: s.ID, Fleet: s.Fleet, Server: s.Server, Phase: run.Refused, Outcome: run.Refusal,
		Reason: run.LastHealthy, Message: "no other server is ready and has answered in the last 5 minutes", Spec: s,
		Timeline: []run.Event{{At: s.Requested, What: "asked for by alice"}}, Versions: map[string]string{"controller": "0.9.0"}}
}

// running is in the middle of its outage.
func running() *run.Report {
	r := failed()
	r.Phase, r.Outcome, r.Reason, r.Message, r.Ended = run.Noticed, "", "", "", nil
	r.TimeToMoveSeconds, r.HeldSeconds, r.BackSeconds, r.Findings, r.Coverage = nil, nil, nil, nil, nil
	r.Timeline, r.Amended = r.Timeline[:4], false
	r.Survivors[1].During = run.Traffic{Seconds: 20} // nobody has asked it
	r.Clients[0].Lost, r.Clients[2].Lost = nil, nil
	r.Clients = []run.ClientReport{r.Clients[0], r.Clients[2], {Address: "192.0.2.31", Name: "thermostat", Drilled: 9}, {Address: "192.0.2.24", Drilled: 1}}
	r.ClientsTotal, r.Verdicts, r.Lost, r.LostSampled = 4, run.Verdicts{}, nil, false
	return r
}

// hostile has markup, quotes and terminal escapes wherever others may write.
func hostile() *run.Report {
	r := failed()
	evil := "<script>alert('x')</script>\"'&\x1b[31mred\u202eback"
	r.Spec.Reason, r.Spec.By, r.Message, r.Fleet, r.Server = evil, evil, evil, evil, evil
	r.Clients[0].Name, r.Clients[1].AnsweredBy, r.Clients[2].Name = evil, evil, "javascript:alert(1)"
	r.Findings[0].Message, r.Timeline[0].What, r.Unheard[0].Why, r.Versions[evil] = evil, evil, evil, evil
	r.Shortened = append(r.Shortened, evil)
	return r
}

func plan(allowed bool) *run.Plan {
	p := &run.Plan{Schema: run.PlanSchemaVersion, Fleet: "home", Server: "ns1", Spec: fixtureSpec(), Allowed: allowed,
		Checks: []run.Check{{Reason: run.DrillsOff, Passed: true, Message: "drills are on, on the controller and on ns1"},
			{Reason: run.LastHealthy, Passed: allowed, Message: "ns2 answered 2 s ago"}, {Reason: run.IncidentOpen, Passed: true, Ignored: true, Message: "not asked: FIREBREAK_DRILL_IGNORE_HEALTH"}},
		Targets: []run.PlanClient{{Address: "192.0.2.21", Name: "laptop", LastSeen: after(-40), Queries: 1200},
			{Address: "192.0.2.31", Name: "thermostat", LastSeen: after(-1800), Queries: 88, SingleHomed: true}},
		TargetsTotal: 2, Warnings: []run.Warning{{Kind: "SingleHomed", Message: "1 client was answered by no other server in 7 days", Clients: []string{"192.0.2.31"}}},
		Steps: []string{"read what is normal, 30 s", "ns1 drops the queries of everyone, 60 s", "put back, and read the recordings, 60 s"},
	}
	if !allowed {
		p.Checks[1].Message = "no other server is ready and has answered in the last 5 minutes"
	}
	return p
}

func planOfUpstream() *run.Plan {
	p := plan(true)
	p.Spec = upstream().Spec
	p.Warnings, p.Steps = nil, []string{"ns1 sends nothing more to 10.0.0.53:53, 60 s"}
	return p
}

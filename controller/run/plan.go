package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Kinds of warnings in a plan.
const (
	WarnSingleHomed  = "SingleHomed"  // no other server answered them in 7 days
	WarnForwarder    = "Forwarder"    // they look like forwarders or nodes: their clients are hidden behind them
	WarnUnreachable  = "Unreachable"  // servers that could not be reached
	WarnCannotRecord = "CannotRecord" // servers whose part will be missing
	WarnRefused      = "Refused"      // the mode is faster, and less like a real failure
	WarnShortened    = "Shortened"    // waits are shortened or checks ignored
	WarnNoMonitors   = "NoMonitors"   // nothing is looked up meanwhile
)

// forwarderTimes the median client's queries: who asks so much more than others
// asks for others.
const forwarderTimes = 20

// MakePlan says what a drill would do and for whom, and whether the guards
// allow it; nothing is changed. The facts are to have the seen tables.
func MakePlan(s Spec, f Facts) Plan {
	p := Plan{
		Schema: PlanSchemaVersion, Fleet: s.Fleet, Server: s.Server, Spec: s, Checks: Guards(s, f),
		Targets: []PlanClient{}, Warnings: []Warning{}, Shortened: s.Timings.Shortened(),
	}
	p.Spec.ProbeToken = ""
	p.Allowed = FirstRefusal(p.Checks) == nil
	seen := targetsSeen(s, &f)
	elsewhere := answeredElsewhere(&f, s.Server, homedWithin)
	for _, c := range seen {
		p.Targets = append(p.Targets, PlanClient{
			Address: c.Address, Name: f.Names[c.Address], LastSeen: c.Last, Queries: c.Queries, SingleHomed: !elsewhere[c.Address],
		})
	}
	slices.SortFunc(p.Targets, func(a, b PlanClient) int {
		x, _ := parseAddr(a.Address)
		y, _ := parseAddr(b.Address)
		return x.Compare(y)
	})
	p.TargetsTotal = len(p.Targets)
	p.Warnings = append(p.Warnings, warnings(s, &f, p.Targets)...)
	p.Steps = steps(s)
	return p
}

// homedWithin is how far back seen tables count: longer than a week of days off.
const homedWithin = 7 * 24 * time.Hour

// answeredElsewhere are the clients that a server but the named one has answered,
// and saw within that time.
func answeredElsewhere(f *Facts, server string, within time.Duration) map[string]bool {
	out := map[string]bool{}
	for i := range f.Servers {
		if f.Servers[i].Name == server {
			continue
		}
		for _, c := range f.Servers[i].Seen {
			if c.Answers > c.Errors && f.Now.Sub(c.Last) <= within {
				out[c.Address] = true
			}
		}
	}
	return out
}

func warnings(s Spec, f *Facts, targets []PlanClient) []Warning {
	var out []Warning
	add := func(kind string, clients []string, format string, args ...any) {
		out = append(out, Warning{Kind: kind, Message: fmt.Sprintf(format, args...), Clients: clients})
	}
	var single, forwarders, unreachable, deaf, foreign []string
	var queries []uint64
	for _, c := range targets {
		queries = append(queries, c.Queries)
		if c.SingleHomed {
			single = append(single, c.Address)
		}
	}
	slices.Sort(queries)
	for _, c := range targets {
		if strings.HasPrefix(c.Name, "node/") || len(queries) >= 5 && c.Queries > forwarderTimes*max(queries[len(queries)/2], 1) {
			forwarders = append(forwarders, c.Address)
		}
	}
	for _, t := range f.Servers {
		if !t.Heard {
			unreachable = append(unreachable, t.Name)
		} else if why := t.incompatible(); why != "" {
			foreign = append(foreign, t.Name+" ("+why+")")
		} else if !t.Has(protocol.FeatureRecordings) {
			deaf = append(deaf, t.Name)
		}
	}
	if s.OfUpstream() { // they are answered by the server all the while
		single, forwarders, deaf = nil, nil, nil
	}
	if len(single) > 0 {
		add(WarnSingleHomed, single, "%s: no other server answered them in 7 days, so they may lose DNS for the whole drill", plural(len(single), "client", "clients"))
	}
	if len(forwarders) > 0 {
		add(WarnForwarder, forwarders, "%s: forwarders or nodes by their looks; the clients behind them are drilled with them and do not show in the report", plural(len(forwarders), "client", "clients"))
	}
	if len(unreachable) > 0 {
		add(WarnUnreachable, nil, "not reached: %s. What they see will be missing from the report", strings.Join(unreachable, ", "))
	}
	if len(deaf) > 0 {
		add(WarnCannotRecord, nil, "cannot record: %s (no \"clients\" in its Corefile). Whom it answers will be missing from the report, and who fails over to it may come out as unknown", strings.Join(deaf, ", "))
	}
	if len(foreign) > 0 {
		add(WarnCannotRecord, nil, "of another version: %s. Whom they answer will be missing from the report, and who fails over to them may come out as unknown", strings.Join(foreign, "; "))
	}
	if s.Mode == protocol.ModeRefused {
		add(WarnRefused, nil, "refused makes clients fail over faster than a dead server would: drop is the realistic one")
	}
	if len(s.Monitors) == 0 {
		add(WarnNoMonitors, nil, "no monitors: nothing is looked up as a client would while the drill is on")
	}
	if short := s.Timings.Shortened(); len(short) > 0 {
		add(WarnShortened, nil, "not a real run's waits: %s", strings.Join(short, "; "))
	}
	return out
}

// steps say what would happen, in order.
func steps(s Spec) []string {
	if s.OfUpstream() {
		return upstreamSteps(s)
	}
	who := "its targets"
	if s.Everyone {
		who = "everyone"
	}
	t := s.Timings
	what := "drops the queries of " + who
	if s.Mode == protocol.ModeRefused {
		what = "refuses the queries of " + who
	}
	return []string{
		fmt.Sprintf("Reading, %d s: what errors, latency and retries look like now; nothing changes", t.ReadingSeconds),
		"Asking: every guard again",
		fmt.Sprintf("Out, %d s: every server records; %s %s, and ends that by itself", s.Seconds, s.Server, what),
		fmt.Sprintf("Back, at most %d s: until %s answers as before", BackSeconds, s.Server),
		fmt.Sprintf("Recording, %d s more; then the report", t.TailSeconds),
		fmt.Sprintf("%d s after the end: who returned", t.ReturnSeconds),
	}
}

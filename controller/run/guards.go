package run

import (
	"fmt"
	"strings"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// guard is one reason why a drill may not start: what it would refuse with, and
// a function from what is known to a message and whether it refuses.
type guard struct {
	reason Reason
	ask    func(s Spec, f *Facts) (message string, refused bool)
	// upstream is asked instead where one is to be drilled; nil: the same holds.
	upstream func(s Spec, f *Facts) (message string, refused bool)
}

// healthyWithin is how fresh an answer must be for a server to count as healthy.
const healthyWithin = 5 * time.Minute

// seenWithin is how lately a client must have asked to be a target worth drilling.
const seenWithin = time.Hour

// headroomShare of their CPU limit is the most that survivors may be left with.
const headroomShare = 0.8

// guards in the order in which they are asked and told.
var guards = []guard{
	{OutOfBounds, func(s Spec, _ *Facts) (string, bool) {
		if bad := s.Bounds(); bad != nil {
			return bad.Error(), true
		}
		return fmt.Sprintf("%s for %d s", s.Mode, s.Seconds), false
	}, nil},
	{ReasonMissing, func(s Spec, _ *Facts) (string, bool) {
		if strings.TrimSpace(s.Reason) == "" && !s.Terminal {
			return "say why this drill is run: --reason, or the field \"reason\"", true
		}
		return "", false
	}, nil},
	{StateNotWritable, func(_ Spec, f *Facts) (string, bool) {
		if f.StateError != "" {
			return f.StateError + ": what is not written down could not be put back after a crash, so nothing is begun", true
		}
		return "what a run decides can be written down", false
	}, nil},
	{DrillsOff, func(s Spec, f *Facts) (string, bool) {
		if !f.Enabled {
			return "drills are off on this controller: set drills.enabled in its fleet file", true
		}
		if t := f.Server(s.Server); t != nil && t.Heard && !t.Has(protocol.FeatureDrill) && t.Has(protocol.FeatureClients) {
			return fmt.Sprintf("%s has no drill plugin: add \"drill\" to its Corefile", s.Server), true
		}
		return "switched on for the controller and the server", false
	}, nil},
	{TargetNotFound, func(s Spec, f *Facts) (string, bool) {
		if f.Server(s.Server) == nil {
			return fmt.Sprintf("the fleet %s has no server %q; it has %s", s.Fleet, s.Server, f.serverNames()), true
		}
		return "", false
	}, upstreamNotFound},
	{TargetTooOld, func(s Spec, f *Facts) (string, bool) {
		t := f.Server(s.Server)
		if t != nil && t.incompatible() != "" {
			return fmt.Sprintf("%s cannot be drilled: %s", s.Server, t.incompatible()), true
		}
		if t != nil && t.Heard && (!t.Has(protocol.FeatureClients) || !t.Has(protocol.FeatureRecordings)) {
			return fmt.Sprintf("%s (version %s) cannot drill: it needs the clients and drill plugins of this version", s.Server, t.State.Version), true
		}
		return "", false
	}, nil},
	{TargetBusy, targetBusy, upstreamBusy},
	{OutsideWindow, outsideWindow, nil},
	{DrillRunning, drillRunning, nil},
	{TooSoon, func(s Spec, f *Facts) (string, bool) {
		gap := time.Duration(s.Timings.GapSeconds) * time.Second
		for _, o := range f.Others {
			if !o.Ended.IsZero() && f.Now.Sub(o.Ended) < gap {
				return fmt.Sprintf("drill %s of %s ended %s ago; %s must lie between two, so try again after %s",
					o.ID, o.Server, f.Now.Sub(o.Ended).Round(time.Second), gap, o.Ended.Add(gap).UTC().Format(time.TimeOnly)+" UTC"), true
			}
		}
		return fmt.Sprintf("no drill ended in the last %s", gap), false
	}, nil},
	{LastHealthy, func(s Spec, f *Facts) (string, bool) {
		names := healthyOthers(f, s.Server)
		if len(names) == 0 {
			return fmt.Sprintf("no server but %s is ready and has answered in the last %s", s.Server, healthyWithin), true
		}
		return "healthy beside it: " + strings.Join(names, ", "), false
	}, lastUpstream},
	{NoHealthCheck, noHealthCheck, noUpstreamHealth},
	{RolloutRunning, func(_ Spec, f *Facts) (string, bool) {
		if f.Rollout != "" {
			return f.Rollout + ": wait until it is over", true
		}
		return "", false
	}, nil},
	{IncidentOpen, incidentOpen, nil},
	{NoHeadroom, func(s Spec, f *Facts) (string, bool) {
		if f.Headroom == nil {
			return "the servers' CPU limits are not known here", false
		}
		m := fmt.Sprintf("the survivors, carrying %s's load, would use %.0f %% of their CPU limit", s.Server, 100*f.Headroom.Share)
		return m, f.Headroom.Share > headroomShare
	}, noUpstreamHeadroom},
	{NoTargets, noTargets, upstreamUnused},
}

// Guards asks every guard, in order.
func Guards(s Spec, f Facts) []Check {
	checks := make([]Check, 0, len(guards))
	for _, g := range guards {
		ask := g.ask
		if s.OfUpstream() && g.upstream != nil {
			ask = g.upstream
		}
		message, refused := ask(s, &f)
		c := Check{Reason: g.reason, Passed: !refused, Message: message}
		if refused && s.Timings.IgnoreHealth && g.reason == IncidentOpen {
			c.Passed, c.Ignored = true, true
		}
		checks = append(checks, c)
	}
	return checks
}

// FirstRefusal of the checks, nil where all passed.
func FirstRefusal(checks []Check) *Check {
	for i := range checks {
		if !checks[i].Passed {
			return &checks[i]
		}
	}
	return nil
}

func targetBusy(s Spec, f *Facts) (string, bool) {
	t := f.Server(s.Server)
	switch {
	case t == nil:
		return "", false // TargetNotFound says it
	case !t.Heard:
		return fmt.Sprintf("the control endpoint of %s does not answer: %s", s.Server, orNothing(t.Error)), true
	case t.Terminating:
		return s.Server + " is terminating", true
	case t.Cordoned:
		return "the node of " + s.Server + " is cordoned", true
	case t.Ready != nil && !*t.Ready:
		return s.Server + " is not ready", true
	}
	return "reached and ready", false
}

func outsideWindow(s Spec, f *Facts) (string, bool) {
	if f.Window == nil {
		return "no window is set", false
	}
	span := s.longest()
	if !f.Window.Contains(f.Now, span) {
		return fmt.Sprintf("drills start %s, and one of %d s needs %s to finish inside it", f.Window, s.Seconds, span), true
	}
	return "in the window " + f.Window.String(), false
}

// longest is the most that the part of a run which touches anything can take.
func (s Spec) longest() time.Duration {
	return time.Duration(s.Timings.ReadingSeconds+AckSeconds+s.Seconds+BackSeconds) * time.Second
}

func drillRunning(s Spec, f *Facts) (string, bool) {
	for _, o := range f.Others {
		if o.Ended.IsZero() {
			return fmt.Sprintf("drill %s of %s (fleet %s) is on", o.ID, o.Server, o.Fleet), true
		}
	}
	for _, t := range f.Servers {
		// Another controller's: servers know of it, we do not.
		if d := t.State.Drill; d != nil && d.Ended == nil && d.ID != s.ID {
			return fmt.Sprintf("%s is being drilled (%s)", t.Name, d.ID), true
		}
		if o := outageOf(&t.State); o != nil && o.ID != s.ID {
			return fmt.Sprintf("the upstream %s of %s is taken away (%s)", o.Address, t.Name, o.ID), true
		}
		if r := t.State.Recording; r != nil && !r.Frozen && r.Drill != s.ID {
			return fmt.Sprintf("%s is recording for drill %s until %s", t.Name, r.Drill, r.EndsAt.UTC().Format(time.TimeOnly)+" UTC"), true
		}
	}
	return "none is on", false
}

func noHealthCheck(s Spec, f *Facts) (string, bool) {
	t := f.Server(s.Server)
	switch {
	case t == nil || !t.Heard:
		return "", false
	case s.Readiness == protocol.ReadinessPass:
		return "not asked: with readiness pass the server stays in its Service", false
	case !f.Balancer:
		return "not asked: no balancer stands before the fleet, its clients notice by themselves", false
	case t.State.Ready == nil || !t.State.Ready.Configured:
		return fmt.Sprintf("%s has no \"ready\" plugin: nothing would notice", s.Server), true
	case !t.State.Ready.Continuous:
		return fmt.Sprintf("%s is asked for its readiness once and then believed: write \"ready { monitor continuously }\" in its Corefile", s.Server), true
	}
	return "its readiness is asked continuously", false
}

func incidentOpen(s Spec, f *Facts) (string, bool) {
	if f.Incident != "" {
		return f.Incident, true
	}
	ready := 0
	for i := range f.Servers {
		if healthy(&f.Servers[i], f.Now) {
			ready++
		}
	}
	m := fmt.Sprintf("%d of %d servers healthy", ready, len(f.Servers))
	if 2*ready < len(f.Servers) {
		return m, true
	}
	if bad := f.Usual.tooMany(); bad != "" {
		return bad, true
	}
	return m, false
}

func noTargets(s Spec, f *Facts) (string, bool) {
	if len(f.Unresolved) > 0 {
		return fmt.Sprintf("not known: %s. Name an address, a prefix, a group of the fleet file, or a client that was seen", strings.Join(f.Unresolved, ", ")), true
	}
	switch {
	case s.Everyone && f.WithSeen:
		if nobody := f.nobodyOfAll(s.Server); nobody != "" {
			return nobody, true
		}
		return "everyone", false
	case s.Everyone:
		return "everyone", false
	case !f.WithSeen:
		return "", false
	}
	n := len(targetsSeen(s, f))
	if n == 0 {
		return f.nobody(s.Server), true
	}
	return fmt.Sprintf("%d seen on %s in the last hour", n, s.Server), false
}

// targetsSeen are the targets that the spec's server saw within seenWithin.
func targetsSeen(s Spec, f *Facts) []protocol.SeenClient {
	t := f.Server(s.Server)
	if t == nil {
		return nil
	}
	never := neverDrilled(f)
	var seen []protocol.SeenClient
	for _, c := range t.Seen {
		a, ok := parseAddr(c.Address)
		if ok && f.Now.Sub(c.Last) <= seenWithin && f.Resolved.Match(a) && !never.Match(a) {
			seen = append(seen, c)
		}
	}
	return seen
}

// healthy reports whether a server is one that others may be sent to: not known
// to be unready, and it answered a client or a probe within healthyWithin. A
// failing probe makes it unhealthy at once unless clients are being answered.
func healthy(t *ServerFacts, now time.Time) bool {
	if t.Terminating || t.Ready != nil && !*t.Ready {
		return false
	}
	age := min(now.Sub(t.LastAnswer), now.Sub(t.LastProbe))
	if t.ProbeError != "" && age > lostAfter {
		return false
	}
	return age <= healthyWithin
}

// healthyOthers are the names of the healthy servers but one.
func healthyOthers(f *Facts, but string) []string {
	var names []string
	for i := range f.Servers {
		if t := &f.Servers[i]; t.Name != but && healthy(t, f.Now) {
			names = append(names, t.Name)
		}
	}
	return names
}

func (f *Facts) serverNames() string {
	names := make([]string, len(f.Servers))
	for i, t := range f.Servers {
		names[i] = t.Name
	}
	return strings.Join(names, ", ")
}

func orNothing(s string) string {
	if s == "" {
		return "no answer"
	}
	return s
}

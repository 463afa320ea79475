package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// What the stop rules measure by (the design's figures).
const (
	minErrors      = 5   // fewer errors than these are no sign of anything
	retriesTimes   = 1.5 // times the baseline
	retriesAtLeast = 1.3
	retriesFor     = 3 * time.Second
	latencyTimes   = 3.0
	latencyAtLeast = 50.0 // ms
	latencyFor     = 5 * time.Second
	errorsFor      = 5 * time.Second // and over the whole outage
	minQuestions   = 20              // fewer in a span are no sign of anything
	minForP99      = 100             // answers, before and during: of fewer it is the slowest one
	monitorRow     = 3
	lostAfter      = 6 * time.Second  // three probes in a row unanswered
	serverLost     = 30 * time.Second // the lease would have ended it by now
)

// stopRule is one reason why a drill ends early: a function from what is known
// to a message, "" where it does not hold.
type stopRule struct {
	outcome Outcome
	reason  Reason
	ask     func(r *Run, o *Observation, now time.Time) string
}

// stopRules in the order in which they are asked: people first, then the
// drilled server, then what clients feel, then what is around it.
var stopRules = []stopRule{
	{Stopped, StoppedByCaller, func(_ *Run, o *Observation, _ time.Time) string {
		if o.Stop == nil {
			return ""
		}
		return stopMessage(o.Stop)
	}},
	{Stopped, SwitchedOff, func(r *Run, o *Observation, _ time.Time) string {
		if !o.Facts.Enabled {
			return "drills were switched off on the controller"
		}
		// Without its plugin a server says nothing of the drill any more.
		t := o.Facts.Server(r.Spec.Server)
		there := t != nil && t.Heard && t.State.BootID == r.drilled().BootID
		if there && t.incompatible() != "" { // this controller is another version than the one that began
			return fmt.Sprintf("nothing may be asked of %s any more: %s", t.Name, t.incompatible())
		}
		switch removed := r.Order != nil && r.Order.End == protocol.EndRemoved; {
		case r.Spec.OfUpstream() && (removed || there && !t.Has(protocol.FeatureUpstreams)):
			return "the hedge plugin was taken out of the server's Corefile"
		case removed || there && !t.Has(protocol.FeatureDrill):
			return "the drill plugin was taken out of the server's Corefile"
		}
		return ""
	}},
	{Stopped, ServerRestarted, func(r *Run, o *Observation, _ time.Time) string {
		t := o.Facts.Server(r.Spec.Server)
		if t != nil && t.Heard && t.State.BootID != r.drilled().BootID {
			return fmt.Sprintf("%s is another process now: a restart cancels a drill", r.Spec.Server)
		}
		return ""
	}},
	{Stopped, ControllerLost, func(r *Run, _ *Observation, _ time.Time) string {
		if o := r.Order; o != nil && o.End == protocol.EndAbandoned {
			return fmt.Sprintf("%s ended the drill by itself: nobody renewed it for %d s", r.Spec.Server, protocol.LeaseSeconds)
		}
		return ""
	}},
	{Stopped, ServerLost, func(r *Run, o *Observation, now time.Time) string {
		t := o.Facts.Server(r.Spec.Server)
		switch {
		case t == nil:
			return r.Spec.Server + " is no longer in the fleet"
		case !t.Heard && now.Sub(t.Since) >= serverLost:
			return fmt.Sprintf("the control endpoint of %s has not answered for %s: %s", t.Name, now.Sub(t.Since).Round(time.Second), orNothing(t.Error))
		case r.Spec.OfUpstream() && t.Heard && t.State.BootID == r.drilled().BootID && len(t.upstreams(r.Spec.Upstream)) == 0:
			return fmt.Sprintf("%s is no upstream of %s any more", r.Spec.Upstream, r.Spec.Server)
		}
		return ""
	}},
	{Failed, ErrorsOnSurvivors, errorsOnSurvivors},
	{Failed, RetriesRising, func(r *Run, _ *Observation, _ time.Time) string {
		base := r.survivors((*Meter).baseline).perQuestion()
		now := r.survivors(func(m *Meter) tally { return m.last(retriesFor) })
		if limit := max(retriesTimes*base, retriesAtLeast); now.questions >= minQuestions && now.perQuestion() > limit {
			return fmt.Sprintf("clients ask %s %.2f times per question, above %.2f for %s: this is how an avalanche begins", r.byStage("the survivors", r.Spec.Server), now.perQuestion(), limit, retriesFor)
		}
		return ""
	}},
	{Failed, LatencyRising, func(r *Run, _ *Observation, _ time.Time) string {
		base := r.survivors((*Meter).baseline)
		now := r.survivors(func(m *Meter) tally { return m.last(latencyFor) })
		if base.answers < minForP99 || now.answers < minForP99 {
			return "" // one slow answer of a few is no sign of anything
		}
		if limit := max(latencyTimes*base.quantile(0.99), latencyAtLeast); now.quantile(0.99) > limit {
			return fmt.Sprintf("%s P99 is %.0f ms, above %.0f ms for %s", r.whose(), now.quantile(0.99), limit, latencyFor)
		}
		return ""
	}},
	{Failed, DenialsRising, func(r *Run, _ *Observation, now time.Time) string { return r.judged(now, r.denialsRising) }},
	{Failed, AnswersTooSlow, func(r *Run, _ *Observation, now time.Time) string { return r.judged(now, r.answersTooSlow) }},
	{Failed, MonitorLost, func(r *Run, _ *Observation, _ time.Time) string {
		if r.Spec.Readiness == protocol.ReadinessPass {
			return "" // losses are what such a drill is to show: reported, no stop
		}
		for _, name := range sortedKeys(r.Lookups) {
			if t := r.Lookups[name]; t.Row >= monitorRow {
				return fmt.Sprintf("%s could not be looked up %d times in a row (%s)", name, t.Row, t.Error)
			}
		}
		return ""
	}},
	{Failed, NoneHealthy, func(r *Run, o *Observation, _ time.Time) string {
		if r.Spec.OfUpstream() {
			return r.noUpstreamLeft(&o.Facts)
		}
		if len(healthyOthers(&o.Facts, r.Spec.Server)) == 0 {
			return "no other healthy server is left"
		}
		return ""
	}},
	{Stopped, OtherServerLost, otherServerLost},
	{Stopped, IncidentOpened, func(_ *Run, o *Observation, _ time.Time) string { return o.Facts.Incident }},
	{Stopped, RolloutStarted, func(_ *Run, o *Observation, _ time.Time) string { return o.Facts.Rollout }},
}

func stopMessage(w *StopWish) string {
	m := "stopped by " + w.By
	if w.Why != "" {
		m += ": " + w.Why
	}
	return m
}

// whose traffic the stop rules look at.
func (r *Run) whose() string { return r.byStage("the survivors'", r.Spec.Server+"'s") }

// noUpstreamLeft: nothing is well that could answer for a zone of the one that is away.
func (r *Run) noUpstreamLeft(f *Facts) string {
	t := f.Server(r.Spec.Server)
	if t == nil || !t.Heard || t.State.BootID != r.drilled().BootID {
		return ""
	}
	if _, without := t.wellBeside(r.Spec.Upstream); without != "" {
		return fmt.Sprintf("no other upstream of %s is well for zone %q", r.Spec.Server, without)
	}
	return ""
}

// errorsOnSurvivors compares over the whole outage, and over its last seconds:
// errors that begin late in a long drill must not hide behind its good minutes.
// Over the short span only errors beyond the usual ones count, since its usual
// share is small-number luck.
func errorsOnSurvivors(r *Run, _ *Observation, _ time.Time) string {
	base := r.survivors((*Meter).baseline).errorShare()
	limit := base + r.Spec.Limits.ErrorPoints/100
	whole := r.survivors((*Meter).outage)
	late := r.survivors(func(m *Meter) tally { return m.last(errorsFor) })
	usual := base * float64(late.answers)
	for _, t := range []struct {
		tally
		enough bool
		over   string
	}{
		{whole, whole.errors_ >= minErrors, "since the start"},
		{late, float64(late.errors_)-usual >= minErrors, "in the last " + errorsFor.String()},
	} {
		if t.enough && t.errorShare() > limit {
			return fmt.Sprintf("%d of %s %d answers were errors %s (%.1f %%; before: %.1f %%)",
				t.errors_, r.whose(), t.answers, t.over, 100*t.errorShare(), 100*base)
		}
	}
	return ""
}

// otherServerLost: a server that was healthy before, and that the drill did not
// touch, fails or restarts. One whose control endpoint alone is away still
// answers its clients: that costs the report its part, not the run its end.
func otherServerLost(r *Run, o *Observation, now time.Time) string {
	var lost []string
	for i := range o.Facts.Servers {
		t := &o.Facts.Servers[i]
		before := r.Before[t.Name]
		if t.Name == r.Spec.Server || !before.Healthy {
			continue
		}
		switch {
		case t.Heard && before.BootID != "" && t.State.BootID != before.BootID:
			lost = append(lost, t.Name+" restarted")
		case !healthy(t, now):
			lost = append(lost, t.Name+" fails ("+orNothing(t.ProbeError)+")")
		}
	}
	slices.Sort(lost)
	return strings.Join(lost, ", ")
}

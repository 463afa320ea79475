package run

import (
	"fmt"
	"time"
)

// findingOrder ranks findings: the first one there is the run's reason.
var findingOrder = []Reason{
	ErrorsOnSurvivors, RetriesRising, LatencyRising, DenialsRising, AnswersTooSlow, MonitorLost, NoneHealthy, NotBack, NotAcknowledged,
	ClientsStuck, Incomplete, NoEvidence, NotNoticed, NotMoved, SlowToNotice, SlowToMove,
}

// conclude makes the outcome out of what was found.
func (r *Run) conclude() {
	if !r.Started.IsZero() {
		r.findOut()
	}
	switch {
	case r.Outcome == Refusal:
	case r.Outcome == Stopped && !r.found(NotBack):
		// Ended by something or someone: what it showed so far is in the
		// verdicts, and no finding.
		r.Findings = nil
	case len(r.Findings) > 0:
		f := r.worst()
		r.Outcome, r.Reason, r.Message = Failed, f.Reason, f.Message
	default:
		r.Outcome, r.Reason = Passed, FailoverWorked
		if r.Spec.OfUpstream() {
			r.Message = r.upstreamPassed()
			return
		}
		v := r.verdicts()
		r.Message = plural(v.Followed, "client", "clients") + " failed over, " + v.stuckAllowed(r.Spec.Limits.Stuck)
	}
}

// findOut adds the findings that show only at the end.
func (r *Run) findOut() {
	if r.Spec.OfUpstream() {
		r.findOutUpstream()
	} else {
		r.findOutClients()
	}
	r.findOutAnswers()
	r.findOutTimes()
}

// findOutClients adds what the verdicts show.
func (r *Run) findOutClients() {
	v := r.verdicts()
	if v.Stuck > r.Spec.Limits.Stuck {
		r.find(ClientsStuck, "%s did not fail over (allowed: %d)", plural(v.Stuck, "client", "clients"), r.Spec.Limits.Stuck)
	}
	for _, u := range r.Unheard {
		if u.Server == r.Spec.Server && u.From == nil {
			r.find(Incomplete, "the recording of %s itself is missing (%s): nobody's verdict is known", u.Server, u.Why)
		}
	}
	if v.Unknown > 0 {
		r.find(Incomplete, "%s may or may not have failed over: %s", plural(v.Unknown, "client", "clients"), r.whoWasNotHeard())
	}
	if v.Followed == 0 && v.Stuck == 0 && v.Unknown == 0 && !r.found(Incomplete) {
		r.find(NoEvidence, "no client asked enough to tell whether it fails over")
	}
}

// findOutTimes adds what took too long.
func (r *Run) findOutTimes() {
	if r.Outcome != "" { // it ended early: how fast it was says nothing
		return
	}
	expect := time.Duration(r.Spec.Limits.ExpectSeconds) * time.Second
	if d := r.NoticedAt.Sub(r.Started); !r.NoticedAt.IsZero() && d > expect {
		r.find(SlowToNotice, "noticed after %.1f s, later than the expected %s", d.Seconds(), expect)
	}
	if d := r.MovedAt.Sub(r.Started); !r.MovedAt.IsZero() && d > expect {
		r.find(SlowToMove, "traffic had moved after %.1f s, later than the expected %s", d.Seconds(), expect)
	}
	if r.MovedAt.IsZero() && !r.NoticedAt.IsZero() {
		r.find(NotMoved, "%s at the end of its %d s", r.byStage("clients still asked "+r.Spec.Server, r.Spec.Server+" still asked "+r.Spec.Upstream), r.Spec.Seconds)
	}
}

func (r *Run) whoWasNotHeard() string {
	m := "not heard:"
	for _, u := range r.Unheard {
		m += fmt.Sprintf(" %s (%s)", u.Server, u.Why)
	}
	return m
}

func (r *Run) found(reason Reason) bool {
	for _, f := range r.Findings {
		if f.Reason == reason {
			return true
		}
	}
	return false
}

func (r *Run) worst() Finding {
	for _, reason := range findingOrder {
		for _, f := range r.Findings {
			if f.Reason == reason {
				return f
			}
		}
	}
	return r.Findings[0]
}

func (r *Run) verdicts() Verdicts {
	var v Verdicts
	for _, c := range r.Clients {
		switch c.Verdict {
		case Followed:
			v.Followed++
		case Stuck:
			v.Stuck++
		case Quiet:
			v.Quiet++
		case Elsewhere:
			v.Elsewhere++
		case Unknown:
			v.Unknown++
		}
	}
	return v
}

// stuckAllowed says how many are stuck in a run that passed.
func (v Verdicts) stuckAllowed(limit int) string {
	switch v.Stuck {
	case 0:
		return "none is stuck"
	case 1:
		return fmt.Sprintf("1 is stuck, which the limit allows (limits.stuck: %d)", limit)
	}
	return fmt.Sprintf("%d are stuck, which the limit allows (limits.stuck: %d)", v.Stuck, limit)
}

// coverage is followed / (followed + stuck), nil where nobody can be counted:
// no data is never a pass.
func (v Verdicts) coverage() *float64 {
	if v.Followed+v.Stuck == 0 {
		return nil
	}
	c := float64(v.Followed) / float64(v.Followed+v.Stuck)
	return &c
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

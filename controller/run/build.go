package run

import (
	"fmt"
	"slices"
	"time"
)

// Report shows the run as it is now.
func (r Run) Report() Report {
	v := r.verdicts()
	out := Report{
		Schema: SchemaVersion, ID: r.Spec.ID, Fleet: r.Spec.Fleet, Server: r.Spec.Server,
		Phase: r.Phase, Spec: r.Spec, Verdicts: v, Coverage: v.coverage(),
		TimeToNoticeSeconds:   seconds(r.Started, r.NoticedAt),
		TimeToMoveSeconds:     seconds(r.Started, r.MovedAt),
		BalancerSwitchSeconds: seconds(r.Started, r.SwitchAt),
		HeldSeconds:           seconds(r.MovedAt, r.Ended),
		BackSeconds:           seconds(r.Ended, r.Returned),
		Started:               moment(r.Started), Ended: moment(r.Ended),
		Timeline: r.timeline(), Findings: list(r.Findings), Checks: list(r.Checks),
		Clients: list(r.Clients), ClientsTotal: len(r.Clients), Amended: r.Amended,
		Unheard: list(r.Unheard), ClockErrorMs: r.ClockErrorMs,
		Versions: map[string]string{}, Shortened: r.Spec.Timings.Shortened(),
		Survivors: []ServerReport{}, Monitors: []MonitorReport{}, Upstreams: []UpstreamReport{},
	}
	out.Spec.ProbeToken = ""
	if r.Phase.Final() || r.Outcome != "" {
		out.Outcome, out.Reason, out.Message = r.Outcome, r.Reason, r.Message
	}
	if !r.Phase.Final() { // what it looks like so far
		out.Clients = r.soFar()
		out.ClientsTotal = len(out.Clients)
	}
	for _, c := range out.Clients {
		out.Drilled += c.Drilled
		out.LostSampled = out.LostSampled || c.LostSampled
	}
	if r.Phase.Final() {
		out.Lost = r.lostInAll()
	}
	if r.Order != nil && (!r.Phase.Final() || out.Drilled == 0) { // its server counts, whatever becomes of its recording
		out.Drilled = max(out.Drilled, int(min(r.Order.Drilled, mostCounted)))
	}
	if r.Spec.OfUpstream() {
		out.Upstreams = r.upstreamReports()
	}
	for name, p := range r.Peers {
		if p.Version != "" {
			out.Versions[name] = p.Version
		}
	}
	out.Baseline = known(r.survivors((*Meter).baseline))
	out.During = known(r.survivors((*Meter).outage))
	for _, name := range sortedKeys(r.Traffic) {
		if m := r.Traffic[name]; r.survives(name) {
			out.Survivors = append(out.Survivors, ServerReport{Name: name, Baseline: m.baseline().traffic(), During: m.outage().traffic()})
		}
	}
	for _, name := range sortedKeys(r.Lookups) {
		t := r.Lookups[name]
		out.Monitors = append(out.Monitors, MonitorReport{Name: name, Lookups: t.Lookups, Lost: t.Lost, Row: t.LongRow})
	}
	return out
}

// lostInAll are the questions that all clients lost; nil where those of one of
// them are not known, or nobody's are. A client of whose few drilled questions the
// servers had room for none is taken to have lost as many of them as all others
// did, as long as such are few.
func (r Run) lostInAll() *int {
	sum, judged, unsampled := 0, 0, 0
	for _, u := range r.Unheard {
		if u.Server == r.Spec.Server && u.From == nil {
			return nil
		}
	}
	for _, c := range r.Clients {
		switch {
		case c.Lost != nil:
			sum, judged = sum+*c.Lost, judged+c.Drilled
		case c.LostSampled:
			unsampled += c.Drilled
		default:
			return nil
		}
	}
	if unsampled > 0 {
		if unsampled > (judged+unsampled)/10 {
			return nil
		}
		sum += (sum*unsampled + judged/2) / judged
	}
	return &sum
}

// soFar are the clients drilled so far: those that were answered elsewhere are
// shown as followed, the others with no verdict yet.
func (r Run) soFar() []ClientReport {
	out := []ClientReport{}
	for _, addr := range sortedKeys(r.Drilled) {
		c := ClientReport{Address: addr, Name: r.Names[addr], Drilled: r.DrilledQueries[addr]}
		if a, ok := r.Answered[addr]; ok {
			s := max(0, float64(a.AtMs-r.Drilled[addr])/1000)
			c.Verdict, c.AnsweredBy, c.FailoverSeconds = Followed, a.Server, &s
		}
		out = append(out, c)
	}
	return out
}

// timeline is in order of time: servers' moments are learnt after they were.
func (r Run) timeline() []Event {
	out := list(r.Timeline)
	slices.SortStableFunc(out, func(a, b Event) int { return a.At.Compare(b.At) })
	return out
}

// Shortened says which waits were shortened and which checks are ignored.
func (t Timings) Shortened() []string {
	out := []string{}
	d := DefaultTimings
	for _, x := range []struct {
		name      string
		got, want int
	}{
		{"reading", t.ReadingSeconds, d.ReadingSeconds}, {"gap", t.GapSeconds, d.GapSeconds},
		{"tail", t.TailSeconds, d.TailSeconds}, {"retry", t.RetrySeconds, d.RetrySeconds}, {"return", t.ReturnSeconds, d.ReturnSeconds},
	} {
		if x.got < x.want {
			out = append(out, fmt.Sprintf("%s: %d s instead of %d s", x.name, x.got, x.want))
		}
	}
	if t.IgnoreHealth {
		out = append(out, "the fleet's health is ignored")
	}
	return out
}

// seconds between two moments, nil where either is not known.
func seconds(from, to time.Time) *float64 {
	if from.IsZero() || to.IsZero() {
		return nil
	}
	s := float64(to.Sub(from).Milliseconds()) / 1000
	return &s
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func known(t tally) *Traffic {
	if t.ms == 0 {
		return nil
	}
	out := t.traffic()
	return &out
}

// list is a copy that is never null in JSON.
func list[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return slices.Clone(in)
}

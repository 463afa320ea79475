package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Flow is what a server asked one of its upstreams, for one zone, at the moments
// that matter: a Meter of the cache's other side. Times are on the server's clock.
type Flow struct {
	Address  string  `json:"address"`
	Zone     string  `json:"zone"`
	BaseFrom Asked   `json:"baseFrom"` // Reading
	BaseTo   Asked   `json:"baseTo"`
	OutFrom  Asked   `json:"outFrom"` // the outage
	OutTo    Asked   `json:"outTo"`
	Recent   []Asked `json:"recent,omitempty"` // of the last recentSpan
	Cause    string  `json:"cause,omitempty"`  // why it was ejected in the outage; "" where it was not
}

// Asked is how often an upstream had been asked by a moment.
type Asked struct {
	BootID string `json:"bootId"`
	AtMs   int64  `json:"atMs"`
	Asked  uint64 `json:"asked"`
}

// since are the questions from one reading to a later one of the same process,
// and over how long; nothing where either is missing.
func (a Asked) since(from Asked) (asked uint64, over time.Duration) {
	if from.BootID == "" || from.BootID != a.BootID || a.Asked < from.Asked {
		return 0, 0
	}
	return a.Asked - from.Asked, time.Duration(a.AtMs-from.AtMs) * time.Millisecond
}

// perSecond is since as a rate.
func (a Asked) perSecond(from Asked) float64 {
	n, over := a.since(from)
	if over <= 0 {
		return 0
	}
	return float64(n) / over.Seconds()
}

// at is what the counter said at a moment between the last two readings, by the
// usual rate from the one before: what was sent into the outage until the next
// reading counts, and what was sent before it does not.
func (m *Flow) at(ms int64) Asked {
	n := len(m.Recent)
	if n < 2 {
		return m.Recent[n-1]
	}
	before, after := m.Recent[n-2], m.Recent[n-1]
	usual := m.BaseTo.perSecond(m.BaseFrom) * float64(ms-before.AtMs) / 1000
	return Asked{BootID: after.BootID, AtMs: ms, Asked: min(before.Asked+uint64(max(usual, 0)), after.Asked)}
}

// readFlows takes in what the drilled server says of its upstreams.
func (r *Run) readFlows(t *ServerFacts) {
	if p := r.drilled(); p != nil && p.BootID != t.State.BootID {
		return // another process: what this run saw of the one before stands
	}
	at := t.State.Now.UnixMilli()
	on := outageOf(&t.State)
	out := on != nil && on.ID == r.Spec.ID
	for _, u := range t.State.Upstreams {
		key := u.Zone + " " + u.Address
		m := r.Flows[key]
		if m == nil || len(m.Recent) > 0 && m.Recent[len(m.Recent)-1].BootID != t.State.BootID {
			m = &Flow{Address: u.Address, Zone: u.Zone}
			if r.Flows == nil {
				r.Flows = map[string]*Flow{}
			}
			r.Flows[key] = m
		}
		now := Asked{BootID: t.State.BootID, AtMs: at, Asked: u.Asked}
		if n := len(m.Recent); n > 0 && m.Recent[n-1].AtMs >= at {
			continue // the same state as last time
		}
		m.Recent = append(m.Recent, now)
		for len(m.Recent) > 2 && at-m.Recent[1].AtMs > recentSpan.Milliseconds() {
			m.Recent = m.Recent[1:]
		}
		switch {
		case r.Phase == Planned || r.Phase == Reading || r.Phase == Asking:
			if m.BaseFrom.BootID == "" {
				m.BaseFrom = now
			}
			m.BaseTo = now
		case out:
			if m.OutFrom.BootID == "" {
				m.OutFrom = m.at(on.Started.UnixMilli())
			}
			m.OutTo = now
			if !u.Healthy {
				m.Cause = causeOf(u)
			}
		}
	}
}

// taken are the flows to the upstream that is taken away.
func (r *Run) taken() []*Flow {
	var out []*Flow
	for _, key := range sortedKeys(r.Flows) {
		if m := r.Flows[key]; m.Address == r.Spec.Upstream {
			out = append(out, m)
		}
	}
	return out
}

// watchUpstream notes when the server ejected the upstream, and when it had sent
// it the last question. Both moments are the server's own, as it counts from the
// start of the outage, so that no clock but its matters.
func (r *Run) watchUpstream(o *Observation) {
	t := o.Facts.Server(r.Spec.Server)
	if t == nil || !t.Heard || t.State.BootID != r.drilled().BootID || r.Order == nil {
		return
	}
	if on := outageOf(&t.State); on == nil || on.ID != r.Spec.ID {
		return // what it asks and ejects now is another matter
	}
	onOurs := func(at time.Time) time.Time { return r.Started.Add(at.Sub(r.Order.Started)) }
	var last, first time.Time
	why := ""
	for _, u := range t.upstreams(r.Spec.Upstream) {
		if at := time.UnixMilli(u.LastAskedMs); u.LastAskedMs != 0 && at.After(last) {
			last = at
		}
		if u.Healthy || len(u.Transports) == 0 || u.Transports[0].Since == nil || u.Transports[0].Since.Before(r.Order.Started) {
			continue
		}
		if at := onOurs(*u.Transports[0].Since).UTC(); first.IsZero() || at.Before(first) {
			first, why = at, fmt.Sprintf("%s ejected %s for zone %q (%s)", r.Spec.Server, u.Address, u.Zone, causeOf(u))
		}
	}
	if r.NoticedAt.IsZero() && !first.IsZero() {
		r.NoticedAt = first
		r.note(first, "%s", why)
	}
	switch moved := r.unasked(); {
	case r.NoticedAt.IsZero():
	case !moved:
		r.MovedAt = time.Time{}
	case r.MovedAt.IsZero():
		r.MovedAt = r.NoticedAt
		if last.After(r.Order.Started) {
			r.MovedAt = latest(r.NoticedAt, onOurs(last).UTC())
		}
		if !r.MovedSaid {
			r.note(r.MovedAt, "%s asked %s for the last time", r.Spec.Server, r.Spec.Upstream)
		}
		r.MovedSaid = true
	}
}

// unasked: no question of a client was sent to the upstream for movedSpan. Once
// that was so, a question that tries it now and then is what hedge does by design
// (an ejected upstream that cannot be probed is tried so): what it costs stands
// in the report.
func (r *Run) unasked() bool {
	var asked uint64
	usual := 0.0
	for _, m := range r.taken() {
		n := len(m.Recent)
		from := -1
		for i := n - 2; i >= 0; i-- {
			if m.Recent[n-1].AtMs-m.Recent[i].AtMs >= movedSpan.Milliseconds() {
				from = i
				break
			}
		}
		if from < 0 || m.OutFrom.BootID == "" || m.Recent[from].AtMs < m.OutFrom.AtMs {
			return false
		}
		n64, _ := m.Recent[n-1].since(m.Recent[from])
		asked += n64
		usual += m.BaseTo.perSecond(m.BaseFrom) * movedSpan.Seconds()
	}
	allowed := 0.0
	if !r.MovedAt.IsZero() {
		allowed = 1 + usual/10
	}
	return len(r.taken()) > 0 && float64(asked) <= allowed
}

// upstreamBack says how the server and the upstream stand, where nothing is missing.
func (r *Run) upstreamBack(t *ServerFacts) string {
	if len(t.upstreams(r.Spec.Upstream)) == 0 {
		return r.Spec.Server + " answers as before; " + r.Spec.Upstream + " is no upstream of it any more"
	}
	return r.Spec.Server + " asks " + r.Spec.Upstream + " as before"
}

// upstreamNotBack says what is missing until the upstream is asked as before.
func (r *Run) upstreamNotBack(t *ServerFacts) string {
	if o := r.Order; o != nil && o.Ended != nil && t.State.BootID == r.drilled().BootID && !t.State.Now.After(*o.Ended) {
		return "it has not told of its upstreams since"
	}
	if why := ejected(t.upstreams(r.Spec.Upstream)); why != "" {
		return fmt.Sprintf("%s is still ejected for %s", r.Spec.Upstream, why)
	}
	return ""
}

func (r Run) upstreamReports() []UpstreamReport {
	out := []UpstreamReport{}
	for _, key := range sortedKeys(r.Flows) {
		m := r.Flows[key]
		row := UpstreamReport{
			Address: m.Address, Zone: m.Zone, Role: RoleOther, Before: m.BaseTo.perSecond(m.BaseFrom), During: m.OutTo.perSecond(m.OutFrom), Ejected: m.Cause,
		}
		row.Asked, _ = m.OutTo.since(m.OutFrom)
		if m.Address == r.Spec.Upstream {
			row.Role = RoleDrilled
		}
		out = append(out, row)
	}
	slices.SortStableFunc(out, func(a, b UpstreamReport) int { return strings.Compare(a.Role, b.Role) })
	return out
}

// findOutUpstream adds the findings that show only at the end of an upstream's outage.
func (r *Run) findOutUpstream() {
	if r.Order != nil && r.Order.Drilled == 0 {
		r.find(NoEvidence, "%s sent nothing to %s while it was away: its clients asked too little", r.Spec.Server, r.Spec.Upstream)
	}
	if m := r.Traffic[r.Spec.Server]; m == nil || m.outage().answers == 0 {
		r.find(NoEvidence, "no client of %s was answered anything while %s was away: there is nothing to tell by", r.Spec.Server, r.Spec.Upstream)
	}
}

// upstreamPassed says what a drill of an upstream that passed showed.
func (r *Run) upstreamPassed() string {
	t := r.survivors((*Meter).outage)
	return fmt.Sprintf("%s ejected %s after %.1f s; of the %d answers to its clients meanwhile %d were errors",
		r.Spec.Server, r.Spec.Upstream, r.NoticedAt.Sub(r.Started).Seconds(), t.answers, t.errors_)
}

// outageOf is the outage that a server says is on, nil for none.
func outageOf(t *protocol.State) *protocol.OutageState {
	if o := t.Outage; o != nil && o.Ended == nil {
		return o
	}
	return nil
}

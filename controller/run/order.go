package run

import (
	"net/netip"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// give gives the order once everybody records, or has had the time to say so.
func (r *Run) give(now time.Time) []Action {
	replied := true
	for _, p := range r.Peers {
		replied = replied && (p.Replied || !p.Records)
	}
	if !r.drilled().Listening || !replied && now.Sub(r.Since) < listenFor || now.Before(r.NextTry) {
		return nil
	}
	if r.OrderSent.IsZero() {
		r.OrderSent = now
		r.MustEndBy = now.Add(AckSeconds*time.Second + r.Spec.Duration())
	}
	r.NextTry = now.Add(tryEvery)
	return []Action{r.onDrill(ActOrder)}
}

// onDrill is an action on the drill that this run is.
func (r *Run) onDrill(kind ActionKind) Action {
	a := Action{Kind: kind, Server: r.Spec.Server, BootID: r.drilled().BootID, Drill: r.Spec.ID}
	switch {
	case r.Spec.OfUpstream():
		a.Upstream = r.Spec.Upstream
		if kind != ActEnd { // an outage is renewed by its order
			a.Outage = r.outageOrder()
		}
	case kind == ActOrder:
		a.Order = r.serverOrder()
	}
	return a
}

func (r *Run) serverOrder() *protocol.Order {
	return &protocol.Order{
		ID: r.Spec.ID, Fleet: r.Spec.Fleet, Mode: r.Spec.Mode, DurationSeconds: r.Spec.Seconds, Readiness: r.Spec.Readiness,
		Everyone: r.Targets.Everyone, Targets: prefixStrings(r.Targets.Prefixes), Exclude: prefixStrings(r.Targets.Exclude),
		Never: prefixStrings(r.Never.Prefixes), ProbeToken: r.Spec.ProbeToken, By: r.Spec.By, Reason: r.Spec.Reason,
	}
}

func prefixStrings(ps []netip.Prefix) []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.String()
	}
	return out
}

// record tells every server that does not record yet to do so.
func (r *Run) record(now time.Time) []Action {
	if !r.Ended.IsZero() {
		return nil
	}
	seconds := r.Spec.Seconds + r.Spec.Timings.TailSeconds
	if r.Started.IsZero() {
		seconds += AckSeconds
	} else {
		seconds -= int(now.Sub(r.Started).Seconds())
	}
	var actions []Action
	for _, name := range sortedKeys(r.Peers) {
		p := r.Peers[name]
		if p.Listening || !p.Records || now.Before(p.NextTry) || p.Dropped {
			continue
		}
		p.NextTry = now.Add(listenRetry)
		if name == r.Spec.Server {
			p.NextTry = now.Add(tryEvery) // no order without it
		}
		p.Asked = true
		actions = append(actions, Action{Kind: ActRecord, Server: name, BootID: p.BootID, Drill: r.Spec.ID, Recording: &protocol.RecordingOrder{
			Fleet: r.Spec.Fleet, Seconds: min(max(seconds, 1), protocol.MaxRecordingSeconds), Targets: prefixStrings(r.Targets.Prefixes),
		}})
	}
	return actions
}

// unrecord ends the recordings, once they are not wanted any more.
func (r *Run) unrecord(now time.Time) []Action {
	var actions []Action
	for _, name := range sortedKeys(r.Peers) {
		p := r.Peers[name]
		if !p.Asked || p.Dropped {
			continue
		}
		if now.Sub(r.Since) > unrecordFor {
			p.Dropped = true // it ends by itself
			continue
		}
		if now.Before(p.NextTry) {
			continue
		}
		p.NextTry = now.Add(listenRetry)
		actions = append(actions, Action{Kind: ActUnrecord, Server: name, BootID: p.BootID, Drill: r.Spec.ID})
	}
	return actions
}

package run

import (
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// takeIn notes what was observed, whatever the phase.
func (r *Run) takeIn(o Observation, now time.Time) {
	for i := range o.Facts.Servers {
		t := &o.Facts.Servers[i]
		if p := r.Peers[t.Name]; p != nil && t.Heard {
			p.OffsetMs, p.ErrMs = t.OffsetMs, t.OffsetErr
			r.follow(p, t)
		}
		if r.Spec.OfUpstream() && t.Name == r.Spec.Server && t.Heard {
			r.readFlows(t)
		}
	}
	for name, s := range o.Stats {
		if r.Traffic == nil {
			r.Traffic = map[string]*Meter{}
		}
		m := r.Traffic[name]
		if m == nil {
			m = &Meter{}
			r.Traffic[name] = m
		}
		m.read(s)
		switch {
		case r.Phase == Planned || r.Phase == Reading || r.Phase == Asking:
			if m.BaseFrom.BootID == "" {
				m.BaseFrom = s
			}
			m.BaseTo = s
		case r.out():
			if m.OutFrom.BootID == "" {
				m.OutFrom = s
			}
			m.OutTo = s
		}
	}
	for _, res := range o.Results {
		r.result(res, now)
	}
	for _, name := range sortedKeys(o.Parts) {
		r.part(name, o.Parts[name], now)
	}
	if r.out() {
		for _, l := range o.Lookups {
			r.lookup(l)
		}
	}
}

// out reports whether the server is out, as far as we know.
func (r *Run) out() bool {
	return !r.Started.IsZero() && (r.Phase == Out || r.Phase == Noticed || r.Phase == Held)
}

// follow takes in a server's own state: our drill on it, our recording, or that
// it is another process. What it says of itself counts as much as an answer of
// its that was lost.
func (r *Run) follow(p *Peer, t *ServerFacts) {
	if t.State.BootID == p.BootID {
		if d := r.Spec.Stage.drill(&t.State); d != nil && d.ID == r.Spec.ID && t.Name == r.Spec.Server && !r.OrderSent.IsZero() {
			r.order(*d, p)
		}
		if rec := t.State.Recording; rec != nil && rec.Drill == r.Spec.ID && p.Asked && !p.Dropped {
			p.Listening, p.Replied, p.Error = true, true, ""
		}
		return
	}
	if t.Name == r.Spec.Server { // its drill and its recording went with its process
		p.Listening, p.Error = false, "its process is another one"
		return
	}
	// What it records from now on is late.
	*p = Peer{BootID: t.State.BootID, Version: t.State.Version, OffsetMs: t.OffsetMs, ErrMs: t.OffsetErr, Records: t.Has(protocol.FeatureRecordings), Replied: p.Replied, Error: t.whyNoPart()}
}

// order takes in what the server says of our drill. Its moments are corrected
// anew each time: the measured offset gets better, and after a restart of ours
// it may be another one altogether.
func (r *Run) order(d protocol.DrillState, p *Peer) {
	if d.Ended == nil && r.Order != nil && r.Order.Ended != nil {
		return // an answer that was long on its way: what ended stays ended
	}
	r.Order = &d
	started := time.UnixMilli(p.corrected(d.Started.UnixMilli())).UTC()
	switch by := started.Sub(r.Started); {
	case r.Started.IsZero():
		r.note(started, "%s took the order (%s)", r.Spec.Server, r.byStage(string(r.Spec.Mode), string(r.Spec.Mode)+" "+r.Spec.Upstream))
	case by.Abs() > clockStep:
		r.shift(by)
	}
	r.Started, r.EndsAt = started, started.Add(r.Spec.Duration())
	if d.Ended != nil {
		ended := time.UnixMilli(p.corrected(d.Ended.UnixMilli())).UTC()
		if r.Ended.IsZero() {
			r.note(ended, "the drill ended on %s (%s)", r.Spec.Server, d.End)
		}
		r.Ended = ended
	}
}

// result takes in what came of an action.
func (r *Run) result(res Result, now time.Time) {
	p := r.Peers[res.Server]
	if p == nil || res.BootID != p.BootID { // what another process took, this one knows nothing of
		return
	}
	if res.Drill != nil && res.Drill.ID == r.Spec.ID {
		r.order(*res.Drill, p)
	}
	switch res.Kind {
	case ActRecord:
		p.Replied = true
		p.Error = res.Error
		p.Listening = res.Error == ""
		if res.Reason == protocol.ReasonOtherRecording && r.OrderSent.IsZero() {
			r.Message = res.Server + ": " + res.Error
			r.Reason = DrillRunning
		}
	case ActUnrecord:
		p.Dropped = p.Dropped || res.Error == "" || res.Reason == protocol.ReasonNotFound || res.Reason == protocol.ReasonOtherBoot
	case ActEnd:
		// "No such drill" is as good: the ID is remembered there, and a late order cannot revive it.
		if r.Ended.IsZero() && (res.Error == "" || res.Reason == protocol.ReasonNotFound) {
			r.Ended = res.At
		}
	case ActOrder:
		if res.Error == "" {
			p.Error = ""
		}
		if res.Error == "" || !r.Started.IsZero() {
			break
		}
		p.Error = res.Error
		switch res.Reason {
		case "": // no answer: it may have been taken; asked again with the same ID
		case protocol.ReasonDrillRunning:
			r.end(Refusal, DrillRunning, now, "%s: %s", res.Server, res.Error)
		case protocol.ReasonOtherBoot:
			r.end(Stopped, ServerRestarted, now, "%s is another process than the one that was asked: %s", res.Server, res.Error)
		case protocol.ReasonLastHealthy: // the server's own guard saw more than ours
			r.end(Refusal, LastHealthy, now, "%s: %s", res.Server, res.Error)
		case protocol.ReasonNotRecording:
			p.Listening, p.NextTry = false, time.Time{}
		default:
			r.end(Failed, NotAcknowledged, now, "%s refused the order: %s", res.Server, res.Error)
		}
	}
}

// part takes in a recording: who was drilled, who was answered elsewhere, and
// the whole of it once the outage and its tail are over.
func (r *Run) part(server string, rec protocol.Recording, now time.Time) {
	p := r.Peers[server]
	if p == nil || rec.Drill != r.Spec.ID || rec.BootID != p.BootID {
		return
	}
	rec = sane(rec)
	if r.Phase == Recording && (rec.Frozen || p.corrected(rec.NowMs) >= millis(r.tailEnds())) && hasSamples(rec) {
		whole := rec
		p.Part = &whole
	}
	if server == r.Spec.Server {
		for _, c := range rec.Clients {
			if c.FirstDrilledMs != 0 {
				if r.Drilled == nil {
					r.Drilled = map[string]int64{}
				}
				if r.DrilledQueries == nil {
					r.DrilledQueries = map[string]int{}
				}
				r.Drilled[c.Address] = p.corrected(c.FirstDrilledMs)
				r.DrilledQueries[c.Address] = int(c.Drilled)
			}
		}
		return
	}
	for _, c := range rec.Clients {
		first, ok := r.Drilled[c.Address]
		if !ok {
			continue
		}
		at := p.corrected(answerSince(c, first+p.OffsetMs))
		if at == 0 || !r.Ended.IsZero() && at > millis(r.Ended)+followGrace.Milliseconds() {
			continue
		}
		if a, ok := r.Answered[c.Address]; !ok || at < a.AtMs {
			if r.Answered == nil {
				r.Answered = map[string]Answer{}
			}
			r.Answered[c.Address] = Answer{Server: server, AtMs: at}
		}
	}
}

// hasSamples tells the whole of a recording from a summary that was asked for
// earlier and comes late: questions that could not be paired would not show as lost.
func hasSamples(rec protocol.Recording) bool {
	asked := false
	for _, c := range rec.Clients {
		if len(c.Samples) > 0 {
			return true
		}
		asked = asked || c.Drilled > 0 || c.Answers > c.Errors
	}
	return !asked
}

// answerSince is the earliest answer to c at or after a time, as far as its
// record tells (all on its server's clock); 0: none.
func answerSince(c protocol.RecordedClient, since int64) int64 {
	switch {
	case c.FirstAnswerMs >= since && c.FirstAnswerMs != 0:
		return c.FirstAnswerMs
	case c.LastAnswerMs >= since:
		return c.LastAnswerMs
	}
	return 0
}

func (r *Run) lookup(l Lookup) {
	if r.Lookups == nil {
		r.Lookups = map[string]*MonitorTally{}
	}
	t := r.Lookups[l.Name]
	if t == nil {
		t = &MonitorTally{}
		r.Lookups[l.Name] = t
	}
	t.Lookups++
	if l.Error == "" {
		t.Row = 0
		return
	}
	t.Lost++
	t.Row++
	t.LongRow = max(t.LongRow, t.Row)
	t.Error = l.Error
}

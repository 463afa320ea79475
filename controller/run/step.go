package run

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Between tries of a call that came to nothing.
const (
	tryEvery   = 2 * time.Second
	renewEvery = 10 * time.Second
	// listenFor is how long servers are waited for to say that they record,
	// before the order goes out without them.
	listenFor = 1500 * time.Millisecond
	// listenRetry for a server that misses its recording; retried throughout.
	listenRetry = 5 * time.Second
	// endPatience is how long after its end, as we know it, a drill's server
	// is given to say so itself, before it is told.
	endPatience = 2 * time.Second
	// unrecordFor a server that does not answer; recordings end by themselves.
	unrecordFor = time.Minute
	// endEveryLate is how often the end is asked for once endOften is over.
	endOften     = protocol.LeaseSeconds * time.Second
	endEveryLate = 10 * time.Second
)

// Step takes in what was observed and moves the run on. It returns the run as
// it is now and what is to be done; r itself is not changed. A run that is over
// stays as it is.
func Step(r Run, o Observation, now time.Time) (Run, []Action) {
	if r.Over() {
		return r, nil
	}
	r = r.clone()
	if o.Restarted {
		r.restarted(now)
	}
	r.takeIn(o, now)
	// A phase may be over as soon as it is entered.
	var actions []Action
	for range 4 {
		before := r.Phase
		actions = append(actions, r.advance(&o, now)...)
		if r.Phase == before {
			break
		}
	}
	return r, actions
}

// restarted: another controller process goes on with this run.
func (r *Run) restarted(now time.Time) {
	r.Restarts++
	if r.Phase.Final() {
		return
	}
	r.note(now, "another controller process goes on with this run")
	for _, p := range r.Peers { // answers to what the last one asked are lost
		p.NextTry = time.Time{}
	}
	r.NextTry = time.Time{}
	if r.OrderSent.IsZero() {
		// Whoever asked for it does not expect it to begin at some later time.
		r.end(Stopped, ControllerLost, now, "the controller restarted before the drill began; nothing was changed")
	}
}

// takeIn notes what was observed, whatever the phase.
func (r *Run) takeIn(o Observation, now time.Time) {
	for i := range o.Facts.Servers {
		t := &o.Facts.Servers[i]
		if p := r.Peers[t.Name]; p != nil && t.Heard {
			p.OffsetMs, p.ErrMs = t.OffsetMs, t.OffsetErr
			r.follow(p, t)
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

// follow takes in a server's own state: our drill on it, or another process.
func (r *Run) follow(p *Peer, t *ServerFacts) {
	if t.Name == r.Spec.Server && !r.OrderSent.IsZero() && t.State.BootID == p.BootID {
		if d := t.State.Drill; d != nil && d.ID == r.Spec.ID {
			r.order(*d, p)
		}
	}
	if t.State.BootID != p.BootID && t.Name != r.Spec.Server {
		// Its recording went with its process; what it records from now on is late.
		*p = Peer{BootID: t.State.BootID, Version: t.State.Version, OffsetMs: t.OffsetMs, ErrMs: t.OffsetErr, Records: t.Has(protocol.FeatureRecordings), Replied: p.Replied}
	}
}

// order takes in what the server says of our drill.
func (r *Run) order(d protocol.DrillState, p *Peer) {
	r.Order = &d
	if r.Started.IsZero() {
		r.Started = time.UnixMilli(p.corrected(d.Started.UnixMilli())).UTC()
		r.EndsAt = r.Started.Add(r.Spec.Duration())
		r.note(r.Started, "%s took the order (%s)", r.Spec.Server, r.Spec.Mode)
	}
	if d.Ended != nil && r.Ended.IsZero() {
		r.Ended = time.UnixMilli(p.corrected(d.Ended.UnixMilli())).UTC()
		r.note(r.Ended, "the drill ended on %s (%s)", r.Spec.Server, d.End)
	}
}

// result takes in what came of an action.
func (r *Run) result(res Result, now time.Time) {
	p := r.Peers[res.Server]
	if p == nil {
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
		if res.Error == "" || !r.Started.IsZero() {
			break
		}
		switch res.Reason {
		case "": // no answer: it may have been taken; asked again with the same ID
		case protocol.ReasonDrillRunning:
			r.end(Refusal, DrillRunning, now, "%s: %s", res.Server, res.Error)
		case protocol.ReasonOtherBoot:
			r.end(Stopped, ServerRestarted, now, "%s is another process than the one that was asked: %s", res.Server, res.Error)
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
	if r.Phase == Recording && p.corrected(rec.NowMs) >= millis(r.tailEnds()) || rec.Frozen && r.Phase == Recording {
		whole := rec
		p.Part = &whole
	}
	if server == r.Spec.Server {
		for _, c := range rec.Clients {
			if c.FirstDrilledMs != 0 {
				if r.Drilled == nil {
					r.Drilled = map[string]int64{}
				}
				r.Drilled[c.Address] = p.corrected(c.FirstDrilledMs)
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

// advance moves the run through its phases.
func (r *Run) advance(o *Observation, now time.Time) []Action {
	switch r.Phase {
	case Planned:
		r.enter(Reading, now, "reading what is usual for %d s; nothing changes", r.Spec.Timings.ReadingSeconds)
	case Reading:
		if o.Stop != nil {
			r.end(Stopped, StoppedByCaller, now, "%s", stopMessage(o.Stop))
		} else if now.Sub(r.Since) >= time.Duration(r.Spec.Timings.ReadingSeconds)*time.Second {
			r.enter(Asking, now, "asking every guard again")
		}
	case Asking:
		if o.Stop != nil {
			r.end(Stopped, StoppedByCaller, now, "%s", stopMessage(o.Stop))
		} else if o.Facts.WithSeen && !o.Facts.Now.Before(r.Since) {
			r.ask(&o.Facts, now)
		}
	case Out:
		return r.advanceOut(o, now)
	case Noticed, Held:
		return r.advanceNoticed(o, now)
	case Back:
		return r.advanceBack(o, now)
	case Recording:
		return r.advanceRecording(now)
	case Done:
		r.amend(o, now)
		return r.unrecord(now)
	case Refused:
		return r.unrecord(now)
	}
	return nil
}

// ask is Asking: every guard, right before anything changes. What they allow is
// frozen, so that the order is for those whom they saw.
func (r *Run) ask(f *Facts, now time.Time) {
	r.Checks = Guards(r.Spec, *f)
	if no := FirstRefusal(r.Checks); no != nil {
		r.refuse(no.Reason, no.Message, now)
		return
	}
	r.Targets = f.Resolved
	r.Never = neverDrilled(f)
	r.Names = maps.Clone(f.Names)
	for _, c := range targetsSeen(r.Spec, f) {
		r.SeenHour = append(r.SeenHour, c.Address)
	}
	r.Peers = map[string]*Peer{}
	r.Before = map[string]Standing{}
	for i := range f.Servers {
		t := &f.Servers[i]
		r.Before[t.Name] = Standing{
			BootID: t.State.BootID,
			Ready:  t.Ready != nil && *t.Ready, Routed: t.Routed != nil && *t.Routed, Healthy: healthy(t, now),
		}
		p := &Peer{OffsetMs: t.OffsetMs, ErrMs: t.OffsetErr}
		if t.Heard {
			p.BootID, p.Version, p.Records = t.State.BootID, t.State.Version, t.Has(protocol.FeatureRecordings)
		}
		r.Peers[t.Name] = p
	}
	r.enter(Out, now, "every guard agrees; telling every server to record")
}

func (r *Run) refuse(reason Reason, message string, now time.Time) {
	r.Outcome, r.Reason, r.Message = Refusal, reason, message
	for _, p := range r.Peers {
		p.NextTry = time.Time{} // what was begun is put back at once
	}
	r.enter(Refused, now, "refused: %s", message)
}

// advanceOut tells every server to record, then gives the order, then waits
// for somebody to notice.
func (r *Run) advanceOut(o *Observation, now time.Time) []Action {
	actions := r.record(now)
	if r.Started.IsZero() {
		if o.Stop != nil {
			r.end(Stopped, StoppedByCaller, now, "%s", stopMessage(o.Stop))
			return nil
		}
		if !o.Facts.Enabled {
			r.end(Stopped, SwitchedOff, now, "drills were switched off on the controller")
			return nil
		}
		if r.Reason == DrillRunning && r.OrderSent.IsZero() {
			// Another controller was quicker: give way, whoever it is.
			r.refuse(DrillRunning, r.Message, now)
			return nil
		}
		if now.Sub(r.Since) >= AckSeconds*time.Second {
			r.end(Failed, NotAcknowledged, now, "%s did not take the order within %d s", r.Spec.Server, AckSeconds)
			return nil
		}
		return append(actions, r.give(now)...)
	}
	if r.stopped(o, now) {
		return nil
	}
	r.watch(o, now)
	if !r.NoticedAt.IsZero() {
		r.enter(Noticed, now, "noticed after %s", r.NoticedAt.Sub(r.Started).Round(100*time.Millisecond))
		return actions
	}
	return append(actions, r.untilEnd(now)...)
}

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
	return []Action{{Kind: ActOrder, Server: r.Spec.Server, BootID: r.drilled().BootID, Drill: r.Spec.ID, Order: r.serverOrder()}}
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

// stopped asks every stop rule.
func (r *Run) stopped(o *Observation, now time.Time) bool {
	for _, rule := range stopRules {
		if m := rule.ask(r, o, now); m != "" {
			r.end(rule.outcome, rule.reason, now, "%s", m)
			return true
		}
	}
	return false
}

// watch notes when the outage was noticed and when traffic had moved.
func (r *Run) watch(o *Observation, now time.Time) {
	t := o.Facts.Server(r.Spec.Server)
	byBalancer := t != nil && t.Routed != nil && r.Before[r.Spec.Server].Routed && r.Spec.Readiness == protocol.ReadinessFail
	if byBalancer && !*t.Routed && r.SwitchAt.IsZero() {
		r.SwitchAt = now
		r.note(now, "the balancer dropped %s", r.Spec.Server)
	}
	if r.NoticedAt.IsZero() {
		if byBalancer {
			r.NoticedAt = r.SwitchAt
		} else if addr, a, ok := r.firstAnswered(); ok {
			r.NoticedAt = latest(r.Started, time.UnixMilli(a.AtMs).UTC())
			r.note(r.NoticedAt, "%s was answered by %s", r.named(addr), a.Server)
		}
	}
	if r.MovedAt.IsZero() && !r.NoticedAt.IsZero() && r.moved() {
		r.MovedAt = now
		if at := r.movedByAnswers(); !at.IsZero() {
			r.MovedAt = latest(r.NoticedAt, at)
		}
		r.note(r.MovedAt, "traffic has moved")
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (r *Run) firstAnswered() (addr string, a Answer, ok bool) {
	for _, c := range sortedKeys(r.Answered) {
		if x := r.Answered[c]; !ok || x.AtMs < a.AtMs {
			addr, a, ok = c, x, true
		}
	}
	return addr, a, ok
}

func (r *Run) named(addr string) string {
	if n := r.Names[addr]; n != "" {
		return n + " (" + addr + ")"
	}
	return addr
}

// moved: 90 % of its drilled targets were answered elsewhere, or its queries
// fell to a tenth of what they were.
func (r *Run) moved() bool { return !r.movedByAnswers().IsZero() || r.queriesFell() }

// movedByAnswers is when 90 % of the drilled targets had been answered elsewhere.
func (r *Run) movedByAnswers() time.Time {
	if len(r.Drilled) == 0 {
		return time.Time{}
	}
	need := (9*len(r.Drilled) + 9) / 10
	if len(r.Answered) < need {
		return time.Time{}
	}
	at := make([]int64, 0, len(r.Answered))
	for _, a := range r.Answered {
		at = append(at, a.AtMs)
	}
	slices.Sort(at)
	return time.UnixMilli(at[need-1]).UTC()
}

// movedSpan is over how long queries are counted to see that they fell.
const movedSpan = 3 * time.Second

// movedAtLeast queries in movedSpan before: fewer say nothing when they stop.
const movedAtLeast = 10

func (r *Run) queriesFell() bool {
	m := r.Traffic[r.Spec.Server]
	if m == nil {
		return false
	}
	base := m.baseline()
	if base.ms == 0 {
		return false
	}
	usual := float64(base.queries) / float64(base.ms) * float64(movedSpan.Milliseconds())
	from, to, ok := m.span(movedSpan)
	if !ok || usual < movedAtLeast || from.NowMs < m.OutFrom.NowMs {
		return false
	}
	now := between(from, to)
	return float64(now.queries)/float64(max(now.ms, 1))*float64(movedSpan.Milliseconds()) <= usual/10
}

// advanceNoticed holds the outage for its whole duration.
func (r *Run) advanceNoticed(o *Observation, now time.Time) []Action {
	if r.stopped(o, now) {
		return nil
	}
	r.watch(o, now)
	if r.Phase == Noticed && !r.MovedAt.IsZero() && now.Sub(r.MovedAt) >= HeldSeconds*time.Second && r.Ended.IsZero() {
		r.enter(Held, now, "held: traffic has been away for %d s", HeldSeconds)
	}
	return append(r.record(now), r.untilEnd(now)...)
}

// untilEnd keeps the drill's lease, and goes back once it has ended.
func (r *Run) untilEnd(now time.Time) []Action {
	over := !r.Ended.IsZero() || now.Sub(r.EndsAt) >= endPatience
	if over {
		if r.NoticedAt.IsZero() {
			r.find(NotNoticed, "nobody noticed by the end of its %d s", r.Spec.Seconds)
		}
		r.NextTry = time.Time{}
		r.enter(Back, now, "its time is over")
		return nil
	}
	if now.Before(r.NextTry) || now.Add(tryEvery).After(r.EndsAt) {
		return nil
	}
	r.NextTry = now.Add(renewEvery)
	return []Action{{Kind: ActRenew, Server: r.Spec.Server, BootID: r.drilled().BootID, Drill: r.Spec.ID}}
}

// advanceBack puts everything back, and waits until it is as it was.
func (r *Run) advanceBack(o *Observation, now time.Time) []Action {
	t := o.Facts.Server(r.Spec.Server)
	ended := r.ended(t, now)
	if ended && r.Returned.IsZero() && r.asBefore(t) {
		r.Returned = now
		r.enter(Recording, now, "back: %s answers as before; recordings run on", r.Spec.Server)
		return nil
	}
	if now.Sub(r.Since) >= BackSeconds*time.Second {
		r.find(NotBack, "%s is not as it was %d s after the end: %s", r.Spec.Server, BackSeconds, r.whatIsMissing(t, ended))
		if !ended { // it never said so: its own clock has ended it by now
			r.Ended = latest(r.EndsAt, r.OrderSent)
		}
		r.enter(Recording, now, "%s is not back", r.Spec.Server)
		return nil
	}
	if ended || now.Before(r.NextTry) {
		return nil
	}
	r.NextTry = now.Add(tryEvery)
	if now.Sub(r.Since) >= endOften {
		r.NextTry = now.Add(endEveryLate)
	}
	return []Action{{Kind: ActEnd, Server: r.Spec.Server, BootID: r.drilled().BootID, Drill: r.Spec.ID}}
}

// ended reports whether the drill has surely ended: its server said so, or the
// process that had it is gone.
func (r *Run) ended(t *ServerFacts, now time.Time) bool {
	if r.Ended.IsZero() && t != nil && t.Heard && t.State.BootID != r.drilled().BootID {
		r.Ended = now
		r.drilled().Listening, r.drilled().Error = false, "its process is another one"
	}
	return !r.Ended.IsZero()
}

// asBefore: reached, answering, ready and in its Service, as it was.
func (r *Run) asBefore(t *ServerFacts) bool { return r.whatIsMissing(t, true) == "" }

func (r *Run) whatIsMissing(t *ServerFacts, ended bool) string {
	before := r.Before[r.Spec.Server]
	switch {
	case t == nil:
		return "it is no longer in the fleet"
	case !t.Heard:
		return "its control endpoint does not answer: " + orNothing(t.Error)
	case !ended:
		return "it did not confirm the end of the drill"
	case before.Ready && (t.Ready == nil || !*t.Ready):
		return "it is not ready"
	case before.Routed && (t.Routed == nil || !*t.Routed):
		return "it is not back in its Service"
	case !t.LastProbe.After(r.Ended) && !t.LastAnswer.After(r.Ended):
		return "it does not answer: " + orNothing(t.ProbeError)
	}
	return ""
}

// tailEnds is when the recordings have run on for long enough.
func (r *Run) tailEnds() time.Time {
	return r.Ended.Add(time.Duration(r.Spec.Timings.TailSeconds) * time.Second)
}

// advanceRecording waits for every part, then judges.
func (r *Run) advanceRecording(now time.Time) []Action {
	if r.Started.IsZero() { // the order was never taken: there is nothing to read
		r.finish(now)
		return nil
	}
	if now.Before(r.tailEnds()) {
		return nil
	}
	missing := false
	for _, p := range r.Peers {
		missing = missing || p.Listening && p.Part == nil
	}
	if missing && now.Before(r.tailEnds().Add(time.Duration(r.Spec.Timings.RetrySeconds)*time.Second)) {
		return nil
	}
	r.judge()
	r.finish(now)
	return nil
}

// finish ends the run: the outcome stands, but for who returned.
func (r *Run) finish(now time.Time) {
	r.conclude()
	for _, p := range r.Peers {
		p.Part, p.NextTry = nil, time.Time{}
	}
	if r.Outcome == Refusal {
		r.enter(Refused, now, "refused: %s", r.Message)
		return
	}
	r.Amended = !slices.ContainsFunc(r.Clients, func(c ClientReport) bool { return c.Verdict == Followed })
	r.enter(Done, now, "%s: %s", r.Outcome, r.Message)
}

// returnsAt is when it is asked who returned.
func (r *Run) returnsAt() time.Time {
	return r.Ended.Add(time.Duration(r.Spec.Timings.ReturnSeconds) * time.Second)
}

// amend adds to the report who of those that followed asks the server again.
func (r *Run) amend(o *Observation, now time.Time) {
	if r.Amended || now.Before(r.returnsAt()) {
		return
	}
	t := o.Facts.Server(r.Spec.Server)
	late := now.After(r.returnsAt().Add(time.Duration(r.Spec.Timings.RetrySeconds) * time.Second))
	if (!o.Facts.WithSeen || t == nil || !t.Heard || o.Facts.Now.Before(r.returnsAt())) && !late {
		return
	}
	since := r.Ended.Add(followGrace)
	here, there := map[string]bool{}, map[string]bool{}
	for i := range o.Facts.Servers {
		s := &o.Facts.Servers[i]
		for _, c := range s.Seen {
			if !c.Last.After(since) {
				continue
			}
			if s.Name == r.Spec.Server {
				here[c.Address] = true
			} else {
				there[c.Address] = true
			}
		}
	}
	for i := range r.Clients {
		c := &r.Clients[i]
		if c.Verdict != Followed {
			continue
		}
		switch {
		case here[c.Address]:
			c.Returned = Returned
		case there[c.Address] && !late:
			c.Returned = Sticky
		default:
			c.Returned = ReturnUnknown
		}
	}
	r.Amended = true
	r.note(now, "asked who returned")
}

// Needs says what the caller is to look at for the next Step.
func (r Run) Needs(now time.Time) Needs {
	all := sortedKeys(r.Peers)
	switch r.Phase {
	case Planned, Reading:
		return Needs{Facts: true, AllStats: true}
	case Asking:
		return Needs{Facts: true, Seen: true, AllStats: true}
	case Out, Noticed, Held:
		n := Needs{Facts: true, AllStats: true, Monitors: r.out()}
		if r.out() {
			n.Parts = r.listening(all)
		}
		return n
	case Back:
		return Needs{Facts: true, Parts: r.listening(all)}
	case Recording:
		n := Needs{Facts: true}
		if !now.Before(r.tailEnds()) {
			n.Samples = true
			n.Parts = slices.DeleteFunc(r.listening(all), func(name string) bool { return r.Peers[name].Part != nil })
		}
		return n
	case Done:
		due := !r.Amended && !now.Before(r.returnsAt())
		return Needs{Facts: due, Seen: due}
	}
	return Needs{}
}

func (r Run) listening(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !r.Peers[name].Listening })
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

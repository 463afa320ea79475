package engine

import "time"

// maxAttempts bounds whom one question asks. With three of four upstreams dead
// and unknown yet, the fourth is still asked; the others are for answers that do
// not fit into a datagram.
const (
	maxAttempts = 8
	maxTries    = 5
)

// retryAfter is how long the third is waited for before it is asked, doubling
// from there: when two are silent, the network may be what is slow.
const retryAfter = 50 * time.Millisecond

// Reason is why an upstream is asked.
type Reason uint8

// The reasons.
const (
	First     Reason = iota
	Hedge            // the one before is slower than it should be
	Retry            // the one before failed
	Truncated        // the answer did not fit into a datagram
	reasons
)

// String is the reason's name in metrics and messages.
func (r Reason) String() string { return [...]string{"first", "hedge", "retry", "truncated"}[r] }

// Outcome is what came of an attempt.
type Outcome uint8

// The outcomes.
const (
	open     Outcome = iota
	Good             // an answer, whatever it says (NXDOMAIN too)
	ServFail         // RFC 1035, 4.1.1
	Refused          // the same
	Cut              // TC: the answer is longer than a datagram (RFC 7766)
	Failed           // the connection was refused or closed, or the answer cannot be read
	Unsent           // it never left this machine: nothing is held against the upstream
	gone             // given up
)

// String is the outcome's name in messages.
func (o Outcome) String() string {
	return [...]string{"open", "good", "servfail", "refused", "cut", "failed", "unsent", "gone"}[o]
}

// Attempt is one upstream that a question asks.
type Attempt struct {
	N         int // in the question, from 0
	Key       string
	Transport Transport
	Reason    Reason
	Sent      Time

	link    *link
	outcome Outcome
	counted bool // as a failure
	// overtaken says that another one answered, and that this one counts as such.
	overtaken bool
	checked   bool // it was looked at after suspectAfter
}

// Question is one question of a client, from when it is asked until every
// upstream that was asked has answered or is given up. Its fields are under the
// core's lock.
type Question struct {
	view     *View
	asked    Time
	attempts [maxAttempts]Attempt
	sent     int
	tries    int  // attempts but those after a truncated answer
	open     int  // attempts that nothing was heard of
	hedge    Time // when to ask another one; 0: never
	tcp      bool
	replied  bool
	denied   bool // there was no budget to ask another one
	won      *Attempt
	bad      *Attempt // the first SERVFAIL or REFUSED
	cut      *Attempt // the first truncated answer
	broken   bool     // a connection failed
}

// Reply is what to tell the client.
type Reply uint8

// The replies.
const (
	None    Reply = iota // nothing now
	Answer               // the answer of Step.From: of all that came, the best
	Late                 // the good answer of Step.From, after the client got another reply: for the cache
	Silence              // there is none: no upstream answered in time
	Network              // there is none: connections failed
	Nobody               // there is none: nobody to ask
)

// Step says what to do now.
type Step struct {
	Send  *Attempt // ask this one; nil: nobody
	Reply Reply
	From  *Attempt
	// Attend says that there are Events, or that an upstream is to be probed now.
	Attend bool
	// Wait is when to call Tick, if nothing is heard before. 0: the question is
	// over and is not to be used any more.
	Wait Time
}

// Ask begins a question.
func (v *View) Ask(now Time) (*Question, Step) {
	c := v.core
	c.mu.Lock()
	defer c.mu.Unlock()
	q := &Question{view: v, asked: now}
	c.budget.earn(now)
	l := v.pick(now)
	if l == nil {
		q.replied = true
		return q, Step{Reply: Nobody}
	}
	var s Step
	q.send(l, First, now, &s)
	return q, q.rest(s)
}

// Heard tells what came of an attempt. took is how long the answer took, where
// there was one.
func (q *Question) Heard(a *Attempt, o Outcome, now Time) Step {
	c := q.view.core
	c.mu.Lock()
	defer c.mu.Unlock()
	var s Step
	if a.outcome != open {
		return q.rest(s)
	}
	q.close(a, o)
	l := a.link
	if o != Failed && o != Unsent {
		l.heard = now
		l.latency.add(now-a.Sent, now)
	}
	switch o {
	case Good, Cut:
		if a.counted {
			c.takeBack(l, a.Sent, now)
		} else {
			c.good(l, a.Sent, now)
		}
	case Unsent:
		q.broken = true
	case Failed:
		q.broken = true
		if !a.counted { // one failure, not two
			c.fail(l, Broken, now)
		}
	}
	switch o {
	case Good:
		first := q.won == nil
		if first {
			q.won = a
			q.overtake()
			q.blame(now)
		}
		switch {
		case !q.replied:
			q.reply(&s, Answer, a)
		case first:
			s.Reply, s.From = Late, a
		}
	case ServFail, Refused:
		if q.won != nil {
			c.fail(l, BadAnswers, now)
		}
		if q.bad == nil {
			q.bad = a
		}
	case Cut:
		q.blame(now)
		if q.cut == nil {
			q.cut = a
		}
		if q.replied || q.tcp {
			break
		}
		// The same question again, because it has to be: not out of the budget.
		q.tcp = true
		stream := l.server.links[TCP]
		if next := q.streamAfter(stream, now); next != nil {
			q.send(next, Truncated, now, &s)
		}
	}
	if !q.replied && q.open == 0 {
		q.follow(o, now, &s)
	}
	return q.rest(s)
}

// streamAfter is whom to ask for the whole of a truncated answer: the one that
// has it, unless it is not well over TCP.
func (q *Question) streamAfter(same *link, now Time) *link {
	if same.well() && !q.passed(same) {
		return same
	}
	if l := q.anotherStream(now); l != nil {
		return l
	}
	if q.passed(same) {
		return nil
	}
	return same
}

// blame counts the bad answers that came before a good one.
func (q *Question) blame(now Time) {
	for i := range q.sent {
		a := &q.attempts[i]
		if (a.outcome == ServFail || a.outcome == Refused) && !a.counted {
			a.counted = true
			q.view.core.fail(a.link, BadAnswers, now)
		}
	}
}

// Tick tells that time has passed.
func (q *Question) Tick(now Time) Step {
	c := q.view.core
	c.mu.Lock()
	defer c.mu.Unlock()
	var s Step
	for i := range q.sent {
		q.look(&q.attempts[i], now)
	}
	if !q.replied {
		switch {
		case now >= q.asked+q.view.options.Deadline:
			q.give(&s)
		case q.open == 0:
			q.follow(gone, now, &s)
		case q.hedge != 0 && now >= q.hedge:
			q.ask(Hedge, true, q.keep(), now, &s)
			if s.Send == nil { // there may be budget for it later
				q.hedge = now + retryAfter
			}
		}
	}
	return q.rest(s)
}

// Abandon gives the question up before its time. Nothing is counted of it, and
// nothing may be told of it afterwards.
func (q *Question) Abandon() {
	c := q.view.core
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range q.sent {
		if a := &q.attempts[i]; a.outcome == open {
			q.close(a, gone)
		}
	}
	q.replied = true
}

// keep is what a hedge leaves in the budget: much, unless whoever was asked says
// nothing at all.
func (q *Question) keep() float64 {
	for i := range q.sent {
		if a := &q.attempts[i]; a.outcome == open && a.link.heard > a.Sent {
			return keepForFailures
		}
	}
	return keepForProbes
}

// close ends an attempt.
func (q *Question) close(a *Attempt, o Outcome) {
	a.outcome = o
	q.open--
	a.link.inFlight--
	q.settle(a)
}

// overtake notes of those that were not heard of that another one answered. One
// that is overtaken again and again is not asked until it is known whether it is
// dead or slow: each such question costs a hedge.
func (q *Question) overtake() {
	for i := range q.sent {
		if a := &q.attempts[i]; a.outcome == open && !a.overtaken {
			a.overtaken = true
			a.link.overtaken++
		}
	}
}

// settle takes that back.
func (q *Question) settle(a *Attempt) {
	if a.overtaken {
		a.overtaken = false
		a.link.overtaken--
	}
}

// look looks at an attempt that nothing was heard of.
func (q *Question) look(a *Attempt, now Time) {
	if a.outcome != open {
		return
	}
	l := a.link
	if q.won != nil && !a.counted && now >= a.Sent+l.silentAfter() {
		// Another one answered, so it was not the question.
		a.counted = true
		q.settle(a)
		q.view.core.fail(l, Silent, now)
		q.suspect(a)
	}
	if !a.checked && now >= a.Sent+suspectAfter {
		// Nobody answered this: it may be the question. But one that answered
		// nothing else either is probed.
		a.checked = true
		q.suspect(a)
	}
	if now >= q.asked+q.view.options.Life {
		q.close(a, gone)
	}
}

// suspect has a link probed that has said nothing at all since it was asked: it
// may not be asked often enough to fail three times soon, and a lost datagram is
// told from a dead upstream.
func (q *Question) suspect(a *Attempt) {
	if l := a.link; l.heard <= a.Sent && !l.ejected && !l.suspect {
		l.suspect = true
		q.view.core.suspects = true
	}
}

// follow is what to do when all that were asked are heard of, and none was good.
func (q *Question) follow(after Outcome, now Time, s *Step) {
	if s.Send != nil {
		return
	}
	switch after {
	case ServFail, Refused:
		q.ask(Retry, false, keepForSilence, now, s)
	default:
		q.ask(Retry, true, keepForProbes, now, s)
	}
	if s.Send == nil {
		q.give(s)
	}
}

// give tells the client the best there is.
func (q *Question) give(s *Step) {
	switch {
	case q.cut != nil:
		q.reply(s, Answer, q.cut)
	case q.bad != nil:
		q.reply(s, Answer, q.bad)
	case q.broken:
		q.reply(s, Network, nil)
	default:
		q.reply(s, Silence, nil)
	}
}

func (q *Question) reply(s *Step, r Reply, from *Attempt) {
	s.Reply, s.From = r, from
	q.replied = true
	q.hedge = 0
}

// ask asks another upstream, if there is one, and a token for it.
func (q *Question) ask(why Reason, again bool, keep float64, now Time, s *Step) {
	if q.sent == maxAttempts || q.tries == maxTries {
		return
	}
	c := q.view.core
	l := q.another(now, again)
	if l == nil {
		return
	}
	if !c.budget.spend(keep, now) {
		if !q.denied {
			q.denied = true
			c.denied++
		}
		return
	}
	q.send(l, why, now, s)
}

func (q *Question) send(l *link, why Reason, now Time, s *Step) {
	if q.sent == maxAttempts {
		return
	}
	a := &q.attempts[q.sent]
	*a = Attempt{N: q.sent, Key: l.server.key, Transport: l.transport, Reason: why, Sent: now, link: l}
	q.sent++
	q.open++
	l.inFlight++
	l.sent = now
	l.server.asked++
	l.server.last = now
	if why != Truncated {
		q.tries++
	}
	after := l.hedgeAfter()
	if q.tries > 1 {
		after = max(after, retryAfter<<(q.tries-2))
	}
	q.hedge = now + after
	s.Send = a
}

// rest fills in when to look again.
func (q *Question) rest(s Step) Step {
	c := q.view.core
	s.Attend = c.suspects || len(c.events) > 0
	c.suspects = false
	if q.open == 0 && q.replied {
		return s
	}
	s.Wait = q.asked + q.view.options.Life
	sooner := func(t Time) { s.Wait = min(s.Wait, t) }
	if !q.replied {
		sooner(q.asked + q.view.options.Deadline)
		if q.hedge != 0 {
			sooner(q.hedge)
		}
	}
	for i := range q.sent {
		a := &q.attempts[i]
		if a.outcome != open {
			continue
		}
		if q.won != nil && !a.counted {
			sooner(a.Sent + a.link.silentAfter())
		}
		if !a.checked {
			sooner(a.Sent + suspectAfter)
		}
	}
	return s
}

package hedge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"firebreakdns.io/firebreak/plugin/hedge/engine"
	"firebreakdns.io/firebreak/plugin/hedge/exchange"

	"github.com/miekg/dns"
)

// errFull is that as many questions are under way as may be.
var errFull = errors.New("too many questions are waiting for upstreams")

// fail is why there is no answer.
type fail int

const (
	failSilence fail = iota
	failNetwork
	failNobody
	failFull
	fails
)

func (f fail) String() string { return [...]string{"silence", "network", "nobody", "full"}[f] }

// reply is what a client is told: an answer, or why there is none.
type reply struct {
	msg  *dns.Msg
	key  string // of the upstream
	fail fail
}

// heard is what came of an attempt.
type heard struct {
	attempt *engine.Attempt
	outcome engine.Outcome
	msg     *dns.Msg
}

// asking is one question on its way.
type asking struct {
	group    *group
	question *engine.Question
	query    *exchange.Query
	client   *dns.Msg
	take     func(*dns.Msg) // a late answer; may be nil
	asked    time.Time
	msgs     [8]*dns.Msg // answers, by attempt
	events   chan heard  // never blocks: each attempt sends one
	reply    *reply
}

// ask asks the group's upstreams r, and waits for the answer until the deadline.
func (g *group) ask(ctx context.Context, r *dns.Msg, take func(*dns.Msg)) (reply, error) {
	if !g.enter() {
		return reply{}, errFull
	}
	query, err := exchange.NewQuery(upstreamQuery(r))
	if err != nil {
		g.leave()
		return reply{}, err
	}
	a := &asking{group: g, query: query, client: r, take: take, asked: time.Now()}
	question, step := g.view.Ask(g.now())
	a.question = question
	step = a.first(step)
	// Up to the reply in this goroutine, and on behind it in another.
	for a.reply == nil && step.Wait != 0 {
		if step, err = a.next(step, ctx.Done()); err != nil {
			break // the client went away, or the server ends
		}
	}
	told := reply{fail: failSilence}
	if a.reply != nil {
		told = *a.reply
	}
	if step.Wait == 0 {
		g.leave()
		return told, nil
	}
	behind := func() {
		defer g.leave()
		for step.Wait != 0 {
			var err error
			if step, err = a.next(step, nil); err != nil {
				a.question.Abandon()
				return
			}
		}
	}
	if !g.spawn(behind) {
		a.question.Abandon()
		g.leave()
	}
	return told, nil
}

// first does the first step. The answer is most often the next thing that
// happens, and then there is no need of a goroutine, a channel and a timer.
func (a *asking) first(step engine.Step) engine.Step {
	g := a.group
	try := step.Send
	if try == nil || try.Transport != engine.UDP {
		a.do(step)
		return step
	}
	g.asked(try)
	d, err := a.sendDatagram(try)
	switch {
	case err != nil:
		step = a.question.Heard(try, failed(err), g.now())
		a.do(step)
		return step
	case d == nil: // black-holed
		a.attend(step)
		return step
	}
	err = d.Receive(g.at(step.Wait), func(b []byte) { a.msgs[try.N], step = a.judged(try, b) })
	switch {
	case err == nil:
		d.Close()
	case errors.Is(err, exchange.ErrTimeout):
		a.channel()
		if !g.spawn(func() { a.receive(d, try) }) {
			d.Close()
		}
		step = a.question.Tick(g.now())
	default:
		d.Close()
		step = a.question.Heard(try, failed(err), g.now())
	}
	a.do(step)
	return step
}

// judged tells the engine what an answer is worth.
func (a *asking) judged(try *engine.Attempt, b []byte) (*dns.Msg, engine.Step) {
	m, outcome := a.group.judge(try, b)
	return m, a.question.Heard(try, outcome, a.group.now())
}

// errEnded is that the group ends.
var errEnded = errors.New("the server ends")

// next waits for what happens next, and does what comes of it.
func (a *asking) next(step engine.Step, gone <-chan struct{}) (engine.Step, error) {
	g := a.group
	timer := time.NewTimer(step.Wait - g.now())
	defer timer.Stop()
	select {
	case h := <-a.channel():
		a.msgs[h.attempt.N] = h.msg
		step = a.question.Heard(h.attempt, h.outcome, g.now())
	case <-timer.C:
		select { // who was late may be us
		case h := <-a.channel():
			a.msgs[h.attempt.N] = h.msg
			step = a.question.Heard(h.attempt, h.outcome, g.now())
		default:
			step = a.question.Tick(g.now())
		}
	case <-gone:
		return step, context.Canceled
	case <-g.done:
		return step, errEnded
	}
	a.do(step)
	return step, nil
}

// channel is made by whoever needs it first, which is the question's goroutine.
func (a *asking) channel() chan heard {
	if a.events == nil {
		a.events = make(chan heard, len(a.msgs))
	}
	return a.events
}

// do does what a step says.
func (a *asking) do(step engine.Step) {
	a.attend(step)
	if step.Send != nil {
		a.send(step.Send)
	}
	switch step.Reply {
	case engine.None:
	case engine.Answer:
		a.reply = &reply{msg: clientAnswer(a.msgs[step.From.N], a.client), key: step.From.Key}
		a.group.answered(step.From, a.asked)
	case engine.Late:
		a.group.late.Inc()
		if a.take != nil {
			a.take(clientAnswer(a.msgs[step.From.N], a.client))
		}
	case engine.Silence:
		a.reply = &reply{fail: failSilence}
	case engine.Network:
		a.reply = &reply{fail: failNetwork}
	case engine.Nobody:
		a.reply = &reply{fail: failNobody}
	}
}

func (a *asking) attend(step engine.Step) {
	if step.Attend {
		a.group.wake()
	}
}

// send asks one upstream. What comes of it is an event.
func (a *asking) send(try *engine.Attempt) {
	g := a.group
	g.asked(try)
	a.channel()
	if try.Transport == engine.UDP {
		d, err := a.sendDatagram(try)
		switch {
		case err != nil:
			a.events <- heard{try, failed(err), nil}
		case d == nil: // black-holed
		case !g.spawn(func() { a.receive(d, try) }):
			d.Close()
		}
		return
	}
	peer := g.peer(try.Key)
	if peer == nil {
		a.events <- heard{try, engine.Unsent, nil}
		return
	}
	if outages.takes(peer.addr) {
		return
	}
	// A question that is asked again had better not wait where the first one does.
	fresh := try.Reason == engine.Hedge || try.Reason == engine.Retry
	g.spawn(func() {
		ctx, cancel := context.WithDeadline(context.Background(), a.asked.Add(g.options.life()))
		defer cancel()
		h := heard{attempt: try}
		err := peer.Ask(ctx, a.query, fresh, func(b []byte) { h.msg, h.outcome = g.judge(try, b) })
		if errors.Is(err, exchange.ErrTimeout) {
			return // the engine sees to that
		}
		if err != nil {
			h.outcome = failed(err)
		}
		a.events <- h
	})
}

// sendDatagram asks over UDP. No datagram and no error: it was black-holed.
func (a *asking) sendDatagram(try *engine.Attempt) (*exchange.Datagram, error) {
	peer := a.group.peer(try.Key)
	if peer == nil {
		return nil, exchange.ErrClosed
	}
	if outages.takes(peer.addr) {
		return nil, nil
	}
	return peer.Send(a.query)
}

// receive waits for an answer over UDP for as long as the question lives.
func (a *asking) receive(d *exchange.Datagram, try *engine.Attempt) {
	defer d.Close()
	h := heard{attempt: try}
	err := d.Receive(a.asked.Add(a.group.options.life()), func(b []byte) { h.msg, h.outcome = a.group.judge(try, b) })
	if errors.Is(err, exchange.ErrTimeout) {
		return // the engine sees to that
	}
	if err != nil {
		h.outcome = failed(err)
	}
	a.events <- h
}

// failed is what an error is worth.
func failed(err error) engine.Outcome {
	if exchange.Local(err) {
		return engine.Unsent
	}
	return engine.Failed
}

// judge says what an answer is worth.
func (g *group) judge(try *engine.Attempt, b []byte) (*dns.Msg, engine.Outcome) {
	if peer := g.peer(try.Key); peer != nil && outages.down(peer.addr) {
		return nil, engine.Failed
	}
	m := new(dns.Msg)
	err := m.Unpack(b)
	if m.Truncated && try.Transport == engine.UDP {
		// Servers cut where they like: what is there may end in the middle.
		return m, engine.Cut
	}
	switch {
	case err != nil:
		return nil, engine.Failed
	case m.Rcode == dns.RcodeServerFailure:
		return m, engine.ServFail
	case m.Rcode == dns.RcodeRefused:
		return m, engine.Refused
	}
	return m, engine.Good
}

// explain says why there is no answer, as an extended error (RFC 8914).
func (g *group) explain(f fail) (code uint16, text string) {
	switch f {
	case failNetwork:
		return dns.ExtendedErrorCodeNetworkError, "connections to the upstreams failed"
	case failNobody:
		return dns.ExtendedErrorCodeNoReachableAuthority, "no upstream is known"
	}
	return dns.ExtendedErrorCodeNoReachableAuthority, fmt.Sprintf("no upstream answered within %s", g.options.deadline)
}

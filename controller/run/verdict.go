package run

import (
	"slices"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// What a verdict is made by (the design's figures).
const (
	// followGrace past the end in which an answer elsewhere still counts: later
	// the drilled server answers again, so it proves nothing.
	followGrace = 5 * time.Second
	// stuckAt drilled queries without an answer anywhere: fewer are too little to tell.
	stuckAt = 3
)

// witness is a server's recording, its times on the controller's clock.
type witness struct {
	server  string
	peer    *Peer
	clients map[string]protocol.RecordedClient
	fromMs  int64 // it listened from then on
}

// at is a time of the witness on the controller's clock; 0 stays 0.
func (w *witness) at(ms int64) int64 { return w.peer.corrected(ms) }

// judge makes the verdicts, from every server's recording.
func (r *Run) judge() {
	var drilled *witness
	var others []*witness
	unheard := false
	for _, name := range sortedKeys(r.Peers) {
		p := r.Peers[name]
		if p.Part == nil {
			unheard = unheard || name != r.Spec.Server
			r.Unheard = append(r.Unheard, Unheard{Server: name, Why: whyUnheard(p)})
			continue
		}
		w := &witness{server: name, peer: p, clients: map[string]protocol.RecordedClient{}, fromMs: p.corrected(p.Part.Started.UnixMilli())}
		for _, c := range p.Part.Clients {
			w.clients[c.Address] = c
		}
		if w.fromMs > millis(r.Started) {
			from := time.UnixMilli(w.fromMs).UTC()
			r.Unheard = append(r.Unheard, Unheard{Server: name, Why: "it began to record late", From: &from})
		}
		if name == r.Spec.Server {
			drilled = w
		} else {
			others = append(others, w)
		}
	}
	if drilled == nil {
		return // conclude says that it is incomplete
	}
	for _, w := range others {
		r.ClockErrorMs = max(r.ClockErrorMs, w.peer.ErrMs+drilled.peer.ErrMs)
	}
	for _, addr := range r.concerned(drilled, others) {
		r.Clients = append(r.Clients, r.verdict(addr, drilled, others, unheard))
	}
}

func whyUnheard(p *Peer) string {
	switch {
	case p.Error != "":
		return p.Error
	case !p.Listening:
		return "it did not take the recording"
	}
	return "its recording could not be read"
}

// concerned are the clients that the report is about, sorted by address: the
// targets seen on the server in the hour before, every client it drilled, and
// every target that another server answered.
func (r *Run) concerned(drilled *witness, others []*witness) []string {
	set := map[string]bool{}
	for _, a := range r.SeenHour {
		set[a] = true
	}
	for a, c := range drilled.clients {
		if c.Drilled > 0 {
			set[a] = true
		}
	}
	for _, w := range others {
		for a, c := range w.clients {
			ip, ok := parseAddr(a)
			if ok && c.Answers > c.Errors && r.Targets.Match(ip) && !r.Never.Match(ip) {
				set[a] = true
			}
		}
	}
	list := sortedKeys(set)
	slices.SortFunc(list, func(a, b string) int {
		x, _ := parseAddr(a)
		y, _ := parseAddr(b)
		return x.Compare(y)
	})
	return list
}

// verdict of one client. unheard: some server was not heard at all.
func (r *Run) verdict(addr string, drilled *witness, others []*witness, unheard bool) ClientReport {
	here := drilled.clients[addr]
	out := ClientReport{Address: addr, Name: r.Names[addr], Drilled: int(here.Drilled)}
	first := drilled.at(here.FirstDrilledMs)
	until := millis(r.Ended) + followGrace.Milliseconds()

	var best Answer
	anywhere, late := false, false
	before := slices.Contains(r.SeenElsewhere, addr)
	for _, w := range others {
		c := w.clients[addr]
		anywhere = anywhere || c.Answers > c.Errors
		late = late || first != 0 && w.fromMs > first
		if here.Drilled == 0 {
			continue
		}
		slack := w.peer.ErrMs + drilled.peer.ErrMs
		at, earlier := r.followedAt(w, c, first, until, slack)
		before = before || earlier
		if at != 0 && (best.AtMs == 0 || at < best.AtMs) {
			best = Answer{Server: w.server, AtMs: at}
		}
	}
	none := 0
	out.Lost = &none
	if here.Drilled > 0 {
		out.Lost, out.LostSampled = lost(here, drilled, others, addr)
		if out.Lost != nil && *out.Lost > 0 && (unheard || late) {
			out.Lost, out.LostSampled = nil, false // they may have been answered where nobody listened
		}
	}
	switch {
	case here.Drilled == 0 && anywhere && !slices.Contains(r.SeenHour, addr):
		out.Verdict = Elsewhere
	case here.Drilled == 0:
		out.Verdict = Quiet
	case best.AtMs != 0:
		out.Verdict, out.AnsweredBy = Followed, best.Server
		if !before {
			s := float64(max(best.AtMs-first, 0)) / 1000
			out.FailoverSeconds = &s
		}
	case r.sawAnswer(addr, others):
		// Its server told so while the drill was on, and its part is lost since:
		// when it had answered before is lost with it, so there is no time.
		out.Verdict, out.AnsweredBy = Followed, r.Answered[addr].Server
	case here.Drilled < stuckAt:
		out.Verdict = Quiet
	case unheard || late:
		out.Verdict = Unknown
	default:
		out.Verdict = Stuck
	}
	return out
}

// sawAnswer reports whether a server that is not among the witnesses was seen to
// answer the client while the drill was on.
func (r *Run) sawAnswer(addr string, witnesses []*witness) bool {
	a, ok := r.Answered[addr]
	return ok && !slices.ContainsFunc(witnesses, func(w *witness) bool { return w.server == a.Server })
}

// followedAt is the first answer of w to the client from its first drilled
// query on, and no later than until (0: none); earlier says that w had answered
// it before. Times on the controller's clock; slack is how far they can be off.
func (r *Run) followedAt(w *witness, c protocol.RecordedClient, first, until, slack int64) (at int64, earlier bool) {
	in := func(ms int64) bool { return ms != 0 && ms >= first-slack && ms <= until }
	firstAnswer := w.at(c.FirstAnswerMs)
	if in(firstAnswer) {
		return firstAnswer, false
	}
	earlier = firstAnswer != 0 && firstAnswer < first
	if !earlier {
		return 0, false
	}
	candidates := []int64{w.at(c.LastAnswerMs)}
	if a := r.Answered[c.Address]; a.Server == w.server { // seen while the drill was on
		candidates = append(candidates, a.AtMs)
	}
	for _, s := range c.Samples {
		if !s.Drilled {
			candidates = append(candidates, w.at(s.FirstMs), w.at(s.LastMs))
		}
	}
	for _, ms := range candidates {
		if in(ms) && (at == 0 || ms < at) {
			at = ms
		}
	}
	return at, earlier
}

// lost counts a client's drilled questions that nobody answered: each is paired
// with an answer to the same question, from its first copy on until retryWithin
// after its last one. An answer of the drilled server itself counts too: it came
// back in time for that question, so the client did not lose it. Where a server had no room for all, only the
// questions that every server kept are compared, and the count is scaled up to
// all drilled questions and said to be sampled; nil where there is nothing to
// compare, and then sampled if that is for lack of room.
func lost(here protocol.RecordedClient, drilled *witness, others []*witness, addr string) (n *int, sampled bool) {
	bits := here.SampleBits
	until := drilled.at(here.SamplesUntilMs)
	answers := map[uint64][][2]int64{}
	for _, w := range append([]*witness{drilled}, others...) {
		c, ok := w.clients[addr]
		if !ok {
			continue
		}
		bits = max(bits, c.SampleBits)
		if t := w.at(c.SamplesUntilMs); t != 0 && (until == 0 || t < until) {
			until = t
		}
		slack := w.peer.ErrMs + drilled.peer.ErrMs
		if w == drilled {
			slack = 0 // one clock
		}
		for _, s := range c.Samples {
			if !s.Drilled {
				answers[s.Hash] = append(answers[s.Hash], [2]int64{w.at(s.FirstMs) - slack, w.at(s.LastMs) + slack})
			}
		}
	}
	mask := uint64(1)<<bits - 1
	kept, missing := 0, 0
	for _, s := range here.Samples {
		first, last := drilled.at(s.FirstMs), drilled.at(s.LastMs)
		if !s.Drilled || s.Hash&mask != 0 || until != 0 && last+retryWithin.Milliseconds() > until {
			continue
		}
		kept++
		if !slices.ContainsFunc(answers[s.Hash], func(a [2]int64) bool {
			return a[1] >= first-parallelWithin.Milliseconds() && a[0] <= last+retryWithin.Milliseconds()
		}) {
			missing++
		}
	}
	total := int(here.DrilledQuestions)
	switch {
	case kept >= total:
		return &missing, false
	case kept == 0:
		return nil, bits > 0
	}
	scaled := (missing*total + kept/2) / kept
	return &scaled, true
}

// parallelWithin is how much earlier than the drilled copy an answer elsewhere may
// be: musl asks all servers at once, and the drilled one may be the slower to read.
const parallelWithin = 500 * time.Millisecond

// retryWithin is how late a copy of a question still is a retry of it (the
// design's definition; the servers count by the same).
const retryWithin = 6 * time.Second

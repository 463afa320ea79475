package run

import (
	"slices"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Meter holds what a server's counters said at the moments that matter. A
// restart of the server starts it afresh.
type Meter struct {
	BaseFrom protocol.Stats   `json:"baseFrom"` // Reading
	BaseTo   protocol.Stats   `json:"baseTo"`
	OutFrom  protocol.Stats   `json:"outFrom"` // the outage
	OutTo    protocol.Stats   `json:"outTo"`
	Recent   []protocol.Stats `json:"recent,omitempty"` // of the last recentSpan
}

// recentSpan is how far back a Meter's readings are kept: the longest span that
// a stop rule looks at, and a little.
const recentSpan = 8 * time.Second

// read takes a reading in.
func (m *Meter) read(s protocol.Stats) {
	if n := len(m.Recent); n > 0 && m.Recent[n-1].BootID != s.BootID {
		*m = Meter{}
	}
	m.Recent = append(m.Recent, s)
	for len(m.Recent) > 2 && s.NowMs-m.Recent[1].NowMs > recentSpan.Milliseconds() {
		m.Recent = m.Recent[1:]
	}
}

// span are the readings at both ends of the last d; false where they do not
// reach back so far.
func (m *Meter) span(d time.Duration) (from, to protocol.Stats, ok bool) {
	n := len(m.Recent)
	if n < 2 {
		return from, to, false
	}
	to = m.Recent[n-1]
	for i := n - 2; i >= 0; i-- {
		if to.NowMs-m.Recent[i].NowMs >= d.Milliseconds() {
			return m.Recent[i], to, true
		}
	}
	return from, to, false
}

// tally is what went on between two readings, and can be added up over servers.
type tally struct {
	ms                                            int64
	queries, questions, retries, answers, errors_ uint64
	failed                                        uint64 // of errors_: SERVFAIL
	denied, told                                  uint64 // NXDOMAIN, and the answers of those who count them
	latency                                       []uint64
}

// between is the tally from one reading to a later one of the same process;
// nothing where either is missing.
func between(from, to protocol.Stats) tally {
	if from.BootID == "" || from.BootID != to.BootID {
		return tally{}
	}
	t := tally{
		ms:        to.NowMs - from.NowMs,
		queries:   to.Queries - from.Queries,
		questions: to.Questions - from.Questions,
		retries:   to.Retries - from.Retries,
		answers:   to.Answers - from.Answers,
		errors_:   to.ServFail + to.Refused - from.ServFail - from.Refused,
		failed:    to.ServFail - from.ServFail,
		latency:   slices.Clone(to.LatencyMs),
	}
	if from.NXDomain != nil && to.NXDomain != nil {
		t.denied, t.told = *to.NXDomain-*from.NXDomain, t.answers
	}
	for i := range min(len(t.latency), len(from.LatencyMs)) {
		t.latency[i] -= from.LatencyMs[i]
	}
	return t
}

func (t *tally) add(o tally) {
	t.ms = max(t.ms, o.ms)
	t.queries += o.queries
	t.questions += o.questions
	t.retries += o.retries
	t.answers += o.answers
	t.errors_ += o.errors_
	t.failed += o.failed
	t.denied += o.denied
	t.told += o.told
	if t.latency == nil {
		t.latency = make([]uint64, len(o.latency))
	}
	for i := range min(len(t.latency), len(o.latency)) {
		t.latency[i] += o.latency[i]
	}
}

// errorShare of the answers, 0 to 1.
func (t tally) errorShare() float64 {
	if t.answers == 0 {
		return 0
	}
	return float64(t.errors_) / float64(t.answers)
}

// denialShare of the answers, 0 to 1.
func (t tally) denialShare() float64 {
	if t.told == 0 {
		return 0
	}
	return float64(t.denied) / float64(t.told)
}

// perQuestion is how many queries a question took: 1 where nobody retried.
func (t tally) perQuestion() float64 {
	if t.questions == 0 {
		return 1
	}
	return float64(t.queries) / float64(t.questions)
}

// quantile of the latency in ms: the upper bound of the bucket in which it
// lies, so never less than it was (but for the last bucket, which has none).
func (t tally) quantile(q float64) float64 {
	var all uint64
	for _, n := range t.latency {
		all += n
	}
	if all == 0 {
		return 0
	}
	want := uint64(q*float64(all-1)) + 1
	var sum uint64
	for i, n := range t.latency {
		if sum += n; sum >= want {
			return protocol.LatencyBoundsMs[min(i, len(protocol.LatencyBoundsMs)-1)]
		}
	}
	return protocol.LatencyBoundsMs[len(protocol.LatencyBoundsMs)-1]
}

func (t tally) traffic() Traffic {
	out := Traffic{Seconds: float64(t.ms) / 1000, Queries: t.queries, Answers: t.answers, Errors: t.errors_, ErrorShare: t.errorShare()}
	if t.told > 0 {
		out.DenialShare = new(t.denialShare())
	}
	if t.questions > 0 {
		out.RetriesPerQuestion = new(t.perQuestion())
	}
	if t.answers > 0 {
		out.P50Ms, out.P99Ms = new(t.quantile(0.50)), new(t.quantile(0.99))
	}
	return out
}

// survives reports whether clients are to be answered by the server while the
// drill is on, and as well as before: each but the drilled one, or where one of
// its upstreams is drilled, that one, since its clients are those who would feel it.
func (r *Run) survives(server string) bool { return (server == r.Spec.Server) == r.Spec.OfUpstream() }

// survivors adds up what f takes from the meter of each server that survives.
func (r *Run) survivors(f func(*Meter) tally) tally {
	var sum tally
	for name, m := range r.Traffic {
		if r.survives(name) {
			sum.add(f(m))
		}
	}
	return sum
}

func (m *Meter) baseline() tally { return between(m.BaseFrom, m.BaseTo) }
func (m *Meter) outage() tally   { return between(m.OutFrom, m.OutTo) }

// last is the tally of the last d, all of it while the server was out.
func (m *Meter) last(d time.Duration) tally {
	from, to, ok := m.span(d)
	if !ok || m.OutFrom.BootID == "" || from.NowMs < m.OutFrom.NowMs {
		return tally{}
	}
	return between(from, to)
}

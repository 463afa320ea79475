//go:build linux

package stubs

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/miekg/dns"
)

// timely is how exact a report's times have to be, beside what it says itself
// about clocks.
const timely = 50 * time.Millisecond

// check holds the report to the truth, client by client and in all.
func (m *matrix) check(t *testing.T) {
	for _, c := range m.cells {
		t.Run(c.Name, func(t *testing.T) {
			if c.report == nil {
				t.Fatalf("the report does not have %s, of whom %d queries were drilled", c.addr, len(c.drilled))
			}
			t.Logf("on the wire: %s", c.truth)
			t.Logf("the report:  %s", said(c.report))
			m.checkWire(t, c)
			m.checkLog(t, c)
		})
	}
	m.checkWhole(t)
	if t.Failed() {
		t.Logf("%s, %s: %s", m.report.Outcome, m.report.Reason, m.report.Message)
		for _, e := range m.report.Timeline {
			t.Logf("%s %s", e.At.Format("15:04:05.000"), e.What)
		}
	}
}

// checkWire holds a client's part to what went over its link.
func (m *matrix) checkWire(t *testing.T, c *cell) {
	r := c.report
	if r.Verdict != c.verdict {
		t.Errorf("verdict %s; it was %s", r.Verdict, c.verdict)
	}
	if r.Drilled != len(c.drilled) {
		t.Errorf("%d queries drilled; on the wire they were %d", r.Drilled, len(c.drilled))
	}
	if len(c.strays) > 0 {
		t.Errorf("%d queries got no answer while no drill was on, the first at %s: the lab is not well", len(c.strays), c.strays[0].At.Format("15:04:05.000"))
	}
	m.checkFailover(t, c)
	m.checkLost(t, c)
	if want := returns(c.queries, m.outage); r.Verdict == run.Followed && !slices.Contains(want, r.Returned) {
		t.Errorf("returned: %q; it was %q", r.Returned, want)
	}
}

func (m *matrix) bound() time.Duration {
	return timely + time.Duration(m.report.ClockErrorMs)*time.Millisecond
}

func (m *matrix) checkFailover(t *testing.T, c *cell) {
	got := c.report.FailoverSeconds
	switch {
	case c.verdict != run.Followed:
		if got != nil {
			t.Errorf("failed over after %.3f s; it did not", *got)
		}
	case got == nil:
		// Right for who was answered by another server in the minute before the
		// run asked its guards.
		if c.before.Before(c.first.Add(-severalLead)) {
			t.Errorf("no time to failover; it was %.3f s, and nobody else had answered it in the minute before", c.elsewhere.Sub(c.first).Seconds())
		}
	default:
		want := c.elsewhere.Sub(c.first)
		if off := seconds(*got) - want; off.Abs() > m.bound() {
			t.Errorf("failed over after %.3f s; on the wire it was %.3f s, off by more than %s", *got, want.Seconds(), m.bound())
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// checkLost compares counted questions. Where the report says that it is a
// sample, it has to be what that sample gives, and that within three standard
// deviations of the truth.
func (m *matrix) checkLost(t *testing.T, c *cell) {
	lost, r := c.lost(), c.report
	if r.Lost == nil && r.LostSampled {
		const fewEnough = 16 // questions, of which the servers may have kept none
		if n := len(c.questions); n > fewEnough {
			t.Errorf("what was lost is not known for lack of room; on the wire they were %d of %d", lost, n)
		}
		return
	}
	if r.Lost == nil {
		t.Errorf("what was lost is not known; on the wire they were %d of %d", lost, len(c.questions))
		return
	}
	said := *r.Lost
	if !r.LostSampled {
		if said != lost {
			t.Errorf("%d questions lost; on the wire they were %d of %d", said, lost, len(c.questions))
		}
		return
	}
	const leastKept = 8 // of a client's questions, whatever a server has to throw away
	for bits := range 16 {
		kept, missing := sample(c.questions, bits)
		if kept < min(leastKept, len(c.questions)) {
			break
		}
		total := float64(len(c.questions))
		if estimate := float64(missing) * total / float64(kept); math.Abs(estimate-float64(said)) > 1 {
			continue
		}
		share := float64(lost) / total
		bound := 1 + 3*total*math.Sqrt(share*(1-share)/float64(kept))
		if off := math.Abs(float64(said - lost)); off > bound {
			t.Errorf("%d questions lost, from a sample of %d; on the wire they were %d of %d, off by more than %.1f", said, kept, lost, len(c.questions), bound)
		}
		return
	}
	t.Errorf("%d questions lost, from a sample; on the wire they were %d of %d, and no sample by hash gives that", said, lost, len(c.questions))
}

// sample counts the questions whose hash has so many low bits 0.
func sample(questions []question, bits int) (kept, missing int) {
	for _, q := range questions {
		if q.hash()&(1<<bits-1) != 0 {
			continue
		}
		kept++
		if q.lost() {
			missing++
		}
	}
	return kept, missing
}

func (q question) hash() uint64 {
	var wire [256]byte
	n, err := dns.PackDomainName(q.name, wire[:], 0, nil, false)
	if err != nil {
		panic(fmt.Sprintf("%q was asked and is no name: %v", q.name, err))
	}
	return protocol.QuestionHash(wire[:n], q.qtype, dns.ClassINET)
}

// checkLog holds a client's part to what the client itself logged.
func (m *matrix) checkLog(t *testing.T, c *cell) {
	byName := map[string]lookup{}
	for _, l := range c.lookups {
		byName[dns.Fqdn(l.Name)] = l
	}
	m.checkLoggedLost(t, c, byName)
	m.checkLoggedFailover(t, c, byName)
}

// checkLoggedLost: a lookup failed if, and only if, nobody answered its questions.
func (m *matrix) checkLoggedLost(t *testing.T, c *cell, byName map[string]lookup) {
	type fate struct{ lost, answered bool }
	drilledNames := map[string]fate{}
	for _, q := range c.questions {
		f := drilledNames[q.name]
		f.lost, f.answered = f.lost || q.lost(), f.answered || !q.lost()
		drilledNames[q.name] = f
	}
	var wrong []string
	for name, f := range drilledNames {
		l, logged := byName[name]
		switch {
		case !logged:
			wrong = append(wrong, name+" was asked for and is not in the log")
		case f.lost && f.answered: // of its two questions one was answered: either may come of it
		case f.lost && l.ok():
			wrong = append(wrong, name+" was answered by nobody, and the client found it")
		case f.answered && !l.ok():
			wrong = append(wrong, name+" was answered, and the client logged "+l.Result)
		}
	}
	for name, l := range byName {
		if _, ok := drilledNames[name]; !ok && !l.ok() && l.Start.After(m.outage.start.Add(-warmUp)) {
			wrong = append(wrong, name+" was not drilled, and the client logged "+l.Result)
		}
	}
	if len(wrong) > 0 {
		t.Errorf("the client's log and its link disagree %d times: %s", len(wrong), strings.Join(wrong[:min(3, len(wrong))], "; "))
	}
	if !c.service() || c.report.LostSampled || c.report.Lost == nil { // checkLost says that it is not known
		return
	}
	failed := 0 // one question a lookup here, so both can be counted
	for _, l := range c.lookups {
		if !l.ok() && l.Start.After(m.outage.start.Add(-warmUp)) {
			failed++
		}
	}
	if failed != *c.report.Lost {
		t.Errorf("%d questions lost; the client logged %d failed lookups", *c.report.Lost, failed)
	}
}

// checkLoggedFailover: the time to failover is from the first drilled query to
// the end of the first lookup that another server answered.
func (m *matrix) checkLoggedFailover(t *testing.T, c *cell, byName map[string]lookup) {
	if c.report.FailoverSeconds == nil || c.verdict != run.Followed {
		return
	}
	if c.forwarder() {
		// The drilled client is the forwarder, which logs nothing. Those behind it
		// may wait longer: it can ask another server for one of a lookup's two
		// questions and the dead one for the other.
		return
	}
	l, ok := byName[c.elsewhereName]
	if !ok {
		t.Errorf("%s was answered and is not in the log", c.elsewhereName)
		return
	}
	if !l.ok() {
		return // checkLoggedLost judges that
	}
	want := l.End.Sub(c.first)
	if off := seconds(*c.report.FailoverSeconds) - want; off.Abs() > m.bound() {
		t.Errorf("failed over after %.3f s; by the client's own log it was %.3f s (%s, which took %.3f s), off by more than %s",
			*c.report.FailoverSeconds, want.Seconds(), l.Name, l.took().Seconds(), m.bound())
	}
}

// checkWhole holds the sums and the outcome to the parts.
func (m *matrix) checkWhole(t *testing.T) {
	var want run.Verdicts
	drilled, lost, unknown := 0, 0, 0
	for _, c := range m.cells {
		switch c.verdict {
		case run.Followed:
			want.Followed++
		case run.Stuck:
			want.Stuck++
		case run.Quiet:
			want.Quiet++
		case run.Elsewhere:
			want.Elsewhere++
		}
		drilled += len(c.drilled)
		if c.report != nil {
			if c.report.Lost == nil && c.report.LostSampled {
				unknown += len(c.drilled)
				continue
			}
			lost += known(c.report.Lost)
		}
	}
	if m.report.Verdicts != want {
		t.Errorf("verdicts %+v; they were %+v", m.report.Verdicts, want)
	}
	if m.report.Drilled != drilled {
		t.Errorf("%d queries drilled in all; on the wire they were %d", m.report.Drilled, drilled)
	}
	// Those of whom too little was kept to say are estimated by the others.
	if m.report.Lost == nil || *m.report.Lost < lost || *m.report.Lost > lost+unknown {
		t.Errorf("%d questions lost in all; its clients lost %d, and of %d drilled queries it is not known", known(m.report.Lost), lost, unknown)
	}
	if got := m.outage.end.Sub(m.outage.start); (got - time.Duration(m.seconds)*time.Second).Abs() > m.bound() {
		t.Errorf("the outage was of %s, not of %d s: %s, %s: %s", got, m.seconds, m.report.Outcome, m.report.Reason, m.report.Message)
	}
	outcome, reason := run.Passed, run.FailoverWorked
	if want.Stuck > 0 {
		outcome, reason = run.Failed, run.ClientsStuck
	}
	if m.report.Outcome != outcome || m.report.Reason != reason {
		t.Errorf("the drill %s (%s: %s); with %d stuck clients it is %s (%s)", m.report.Outcome, m.report.Reason, m.report.Message, want.Stuck, outcome, reason)
	}
}

func (t truth) String() string {
	s := fmt.Sprintf("%s, %d drilled, %d of %d questions lost", t.verdict, len(t.drilled), t.lost(), len(t.questions))
	if !t.elsewhere.IsZero() {
		s += fmt.Sprintf(", answered elsewhere after %.3f s", t.elsewhere.Sub(t.first).Seconds())
	}
	return s
}

// known is how many were lost; -1 where the report does not know.
func known(n *int) int {
	if n == nil {
		return -1
	}
	return *n
}

func said(r *run.ClientReport) string {
	s := fmt.Sprintf("%s, %d drilled, %d lost", r.Verdict, r.Drilled, known(r.Lost))
	if r.LostSampled {
		s += " (sampled)"
	}
	if r.FailoverSeconds != nil {
		s += fmt.Sprintf(", failed over after %.3f s", *r.FailoverSeconds)
	}
	if r.Returned != "" {
		s += ", " + string(r.Returned)
	}
	return s
}

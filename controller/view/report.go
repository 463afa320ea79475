package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// reportView is a run's report in words: all that its table and its page show.
type reportView struct {
	ID       string
	Outcome  Value  // one word; the phase while the run is on
	What     string // what was done, in a sentence
	Why      string // why it ended so
	Unsaved  string // that it is not on disk yet, and what to do
	Next     string // what to do about that
	About    []Pair // who, when, where
	Figures  []Pair
	Verdicts []verdictCount
	Counted  string // the verdicts in a line
	Findings []finding
	Clients  Table
	Missing  int // clients that are on another page
	Survivor Table
	// SurvivorHead is the heading of that table.
	SurvivorHead string
	// OfUpstream says that an upstream was drilled: then there are no verdicts.
	OfUpstream bool
	Upstreams  Table
	Monitors   Table
	Unheard    Table
	Timeline   Table
	Checks     Table
	Versions   []Pair
	Spec       []Pair
	// Shortened waits and ignored checks, as the report has them.
	Shortened []string
}

// verdictCount is how many clients a verdict has, and what it means for them.
type verdictCount struct {
	Verdict run.Verdict
	Count   int
	Tone    Tone
	Means   string
	Next    string // what to do; only where the verdict has clients
}

// finding is what did not go as set, with what to do.
type finding struct {
	Reason, Message, Next string
}

func newFinding(r run.Reason, message string, s run.Spec) finding {
	return finding{clean(string(r)), clean(message), advice(r, s)}
}

// advice is what to do about a reason, in a drill of that kind.
func advice(r run.Reason, s run.Spec) string {
	if s.OfUpstream() {
		if a := adviceUpstream(r); a != "" {
			return a
		}
	}
	return Advice(r)
}

// verdictOrder is the order in which people want to know.
var verdictOrder = []run.Verdict{run.Stuck, run.Unknown, run.Followed, run.Quiet, run.Elsewhere}

func verdictTone(v run.Verdict) Tone {
	switch v {
	case run.Followed:
		return Good
	case run.Stuck:
		return Bad
	case run.Unknown:
		return Warn
	}
	return Dim
}

// verdictWord is the verdict, or what a client without one does while the run is on.
func verdictWord(v run.Verdict) string {
	if v == "" {
		return "waiting"
	}
	return string(v)
}

func outcomeTone(o run.Outcome) Tone {
	switch o {
	case run.Passed:
		return Good
	case run.Failed:
		return Bad
	case run.Stopped, run.Refusal:
		return Warn
	}
	return Strong
}

// outcomeWord is the outcome, or the phase of a run that is on.
func outcomeWord(o run.Outcome, p run.Phase) string {
	if o != "" {
		return string(o)
	}
	return string(p)
}

func viewReport(r *run.Report, in *time.Location) reportView {
	v := reportView{
		ID:        clean(r.ID),
		Outcome:   toned(outcomeWord(r.Outcome, r.Phase), outcomeTone(r.Outcome)),
		What:      clean(what(r)),
		Why:       clean(why(r)),
		Unsaved:   unsaved(r.Unsaved),
		About:     about(r, in),
		Figures:   figures(r),
		Verdicts:  verdicts(r),
		Counted:   counted(r),
		Clients:   clientTable(r),
		Missing:   max(r.ClientsTotal-len(r.Clients), 0),
		Survivor:  survivorTable(r),
		Monitors:  monitorTable(r),
		Unheard:   unheardTable(r, in),
		Timeline:  timelineTable(r, in),
		Checks:    checkTable(r.Checks),
		Versions:  versions(r),
		Spec:      spec(r),
		Shortened: cleaned(r.Shortened),

		SurvivorHead: "The other servers, before and during",
		OfUpstream:   r.Spec.OfUpstream(),
		Upstreams:    upstreamTable(r),
	}
	if v.OfUpstream {
		v.SurvivorHead = "What its clients had, before and during"
	}
	for _, f := range r.Findings {
		v.Findings = append(v.Findings, newFinding(f.Reason, f.Message, r.Spec))
	}
	// A finding already says what to do about the reason that it is.
	if !slices.ContainsFunc(r.Findings, func(f run.Finding) bool { return f.Reason == r.Reason }) {
		v.Next = advice(r.Reason, r.Spec)
	}
	return v
}

// what was done to whom, in a sentence, in the tense that fits.
func what(r *run.Report) string {
	who := "of " + whom(r.Spec.Everyone, r.Spec.Clients, r.Spec.Exclude)
	length := fmt.Sprintf("for %d s", r.Spec.Seconds)
	if r.Started != nil && r.Ended != nil {
		if took := r.Ended.Sub(*r.Started).Seconds(); took < float64(r.Spec.Seconds)-0.5 {
			length = fmt.Sprintf("for %s of the %d s asked for", seconds(took), r.Spec.Seconds)
		}
	}
	if r.Spec.OfUpstream() {
		return whatUpstream(r, length)
	}
	refused := r.Spec.Mode == protocol.ModeRefused
	switch {
	case r.Phase == run.Refused || r.Started == nil && r.Phase.Final():
		return r.Server + " was to " + pick(refused, "refuse", "drop") + " the queries " + who + " " + length + ". Nothing was changed."
	case r.Started == nil:
		return r.Server + " is going to " + pick(refused, "refuse", "drop") + " the queries " + who + " " + length + "."
	case r.Ended == nil:
		return r.Server + " is " + pick(refused, "refusing", "dropping") + " the queries " + who + " " + length + "."
	}
	return r.Server + " " + pick(refused, "refused", "dropped") + " the queries " + who + " " + length + "."
}

func pick(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// whom a drill is for.
func whom(everyone bool, clients, exclude []string) string {
	who := list(clients, 3)
	if everyone {
		who = "everyone"
	}
	if len(exclude) > 0 {
		who += " but " + list(exclude, 3)
	}
	return who
}

func why(r *run.Report) string {
	switch {
	case r.Reason == "":
		return r.Message
	case r.Message == "":
		return string(r.Reason)
	}
	return string(r.Reason) + ": " + r.Message
}

// unsaved says that a run is in the controller's memory only; "" where it is not.
func unsaved(why string) string {
	if why == "" {
		return ""
	}
	return clean("Not on the controller's disk yet, and lost if the controller ends: " + why + ". " + Advice(run.StateNotWritable))
}

func about(r *run.Report, in *time.Location) []Pair {
	pairs := []Pair{
		{Field: "fleet", Label: "Fleet", Value: plain(r.Fleet)},
		{Field: "server", Label: "Server", Value: plain(r.Server)},
		{Field: "spec.by", Label: "Asked by", Value: plain(orUnknown(r.Spec.By))},
	}
	if r.Spec.OfUpstream() {
		pairs = slices.Insert(pairs, 2, Pair{Field: "spec.upstream", Label: "Upstream", Value: plain(r.Spec.Upstream)})
	}
	if r.Spec.Reason != "" {
		pairs = append(pairs, Pair{Field: "spec.reason", Label: "Because", Value: plain(r.Spec.Reason)})
	}
	return append(pairs,
		Pair{Field: "started", Label: "Out from", Value: plain(maybeMoment(r.Started, in))},
		Pair{Field: "ended", Label: "Out until", Value: plain(maybeMoment(r.Ended, in))},
	)
}

func figures(r *run.Report) []Pair {
	if r.Spec.OfUpstream() {
		return upstreamFigures(r)
	}
	coverage := Pair{Field: "coverage", Label: "Coverage", Value: plain(maybeShare(r.Coverage)),
		Note: fmt.Sprintf("%s followed, %s stuck", count(r.Verdicts.Followed), count(r.Verdicts.Stuck))}
	switch {
	case r.Coverage == nil:
		coverage.Value.Tone = Dim
	case *r.Coverage >= 1:
		coverage.Value.Tone = Good
	default:
		coverage.Value.Tone = Bad
	}
	lost := Pair{Field: "lost", Label: "Lost", Value: plain(estimate(r.Lost, r.LostSampled)), Note: "questions that no server of this fleet answered"}
	if some(r.Lost) {
		lost.Value.Tone = Warn
	}
	return []Pair{
		coverage,
		lost,
		{Field: "drilled", Label: "Drilled", Value: plain(count(r.Drilled)), Note: "queries that the drill took"},
		{Field: "timeToNoticeSeconds", Label: "Noticed after", Value: plain(maybeSeconds(r.TimeToNoticeSeconds)), Note: "until the outage first showed"},
		{Field: "timeToMoveSeconds", Label: "Moved after", Value: plain(maybeSeconds(r.TimeToMoveSeconds)), Note: "until traffic had moved"},
		{Field: "balancerSwitchSeconds", Label: "Balancer switch", Value: plain(maybeSeconds(r.BalancerSwitchSeconds)), Note: "until the balancer left it out"},
		{Field: "heldSeconds", Label: "Held", Value: plain(maybeSeconds(r.HeldSeconds)), Note: "traffic stayed moved"},
		{Field: "backSeconds", Label: "Back after", Value: plain(maybeSeconds(r.BackSeconds)), Note: "from the end until all was as before"},
	}
}

func verdicts(r *run.Report) []verdictCount {
	counts := map[run.Verdict]int{
		run.Followed: r.Verdicts.Followed, run.Stuck: r.Verdicts.Stuck, run.Quiet: r.Verdicts.Quiet,
		run.Elsewhere: r.Verdicts.Elsewhere, run.Unknown: r.Verdicts.Unknown,
	}
	out := make([]verdictCount, 0, len(verdictOrder))
	for _, v := range verdictOrder {
		c := verdictCount{Verdict: v, Count: counts[v], Tone: verdictTone(v), Means: Meaning(v)}
		if c.Count > 0 {
			c.Next = NextStep(v)
		}
		if v == run.Followed {
			c.Next = halfLost(r.Clients)
		}
		out = append(out, c)
	}
	return out
}

// counted are the verdicts in a line: 1 stuck, 5 followed.
func counted(r *run.Report) string {
	var parts []string
	for _, c := range verdicts(r) {
		if c.Count > 0 {
			parts = append(parts, count(c.Count)+" "+string(c.Verdict))
		}
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case !r.Phase.Final():
		return "no verdicts before the end"
	case r.Started == nil:
		return "nobody was drilled"
	}
	return "nobody had anything to tell"
}

// sorted are the clients as people want to read them: the worst first, among
// those that followed the slowest first.
func sorted(clients []run.ClientReport) []run.ClientReport {
	out := slices.Clone(clients)
	rank := func(v run.Verdict) int {
		if i := slices.Index(verdictOrder, v); i >= 0 {
			return i
		}
		return len(verdictOrder)
	}
	slow := func(c run.ClientReport) float64 {
		if c.FailoverSeconds == nil {
			return -1
		}
		return *c.FailoverSeconds
	}
	slices.SortStableFunc(out, func(a, b run.ClientReport) int {
		return cmp.Or(cmp.Compare(rank(a.Verdict), rank(b.Verdict)), cmp.Compare(slow(b), slow(a)),
			cmp.Compare(estimated(b.Lost), estimated(a.Lost)), cmp.Compare(a.Address, b.Address))
	})
	return out
}

// estimated is a count to sort by: what is not known may be many.
func estimated(n *int) int {
	if n == nil {
		return math.MaxInt
	}
	return *n
}

func clientTable(r *run.Report) Table {
	t := Table{Columns: []Column{
		{Field: "address", Head: "CLIENT"}, {Field: "name", Head: "NAME"}, {Field: "verdict", Head: "VERDICT"},
		{Field: "failoverSeconds", Head: "FAILOVER", Right: true}, {Field: "drilled", Head: "DRILLED", Right: true},
		{Field: "lost", Head: "LOST", Right: true}, {Field: "answeredBy", Head: "ANSWERED BY"}, {Field: "returned", Head: "AFTERWARDS"},
	}}
	for _, c := range sorted(r.Clients) {
		lost := plain(estimate(c.Lost, c.LostSampled))
		if some(c.Lost) {
			lost.Tone = Warn
		}
		t.Rows = append(t.Rows, []Value{
			plain(c.Address), plain(orUnknown(c.Name)), toned(verdictWord(c.Verdict), verdictTone(c.Verdict)),
			plain(maybeSeconds(c.FailoverSeconds)), plain(count(c.Drilled)), lost,
			plain(orUnknown(c.AnsweredBy)), toned(orUnknown(string(c.Returned)), Dim),
		})
	}
	return t
}

func survivorTable(r *run.Report) Table {
	t := Table{Columns: []Column{
		{Field: "name", Head: "SERVER"}, {Field: "span", Head: "WHEN"},
		{Field: "seconds", Head: "OVER", Right: true, Wide: true}, {Field: "queries", Head: "QUERIES", Right: true},
		{Field: "answers", Head: "ANSWERS", Right: true, Wide: true}, {Field: "errors", Head: "ERRORS", Right: true},
		{Field: "errorShare", Head: "ERROR SHARE", Right: true}, {Field: "denialShare", Head: "DENIAL SHARE", Right: true}, {Field: "retriesPerQuestion", Head: "ASKED PER QUESTION", Right: true},
		{Field: "p50Ms", Head: "P50", Right: true}, {Field: "p99Ms", Head: "P99", Right: true},
	}}
	add := func(name, span string, x *run.Traffic) {
		if x == nil {
			return
		}
		errors := plain(count(x.Errors))
		if x.Errors > 0 {
			errors.Tone = Warn
		}
		t.Rows = append(t.Rows, []Value{
			plain(name), toned(span, Dim), plain(seconds(x.Seconds)), plain(count(x.Queries)), plain(count(x.Answers)), errors,
			plain(share(x.ErrorShare)), plain(maybe(x.DenialShare, share)), plain(maybe(x.RetriesPerQuestion, hundredths)),
			plain(maybe(x.P50Ms, millis)), plain(maybe(x.P99Ms, millis)),
		})
	}
	if !r.Spec.OfUpstream() { // there it is one server
		add("all survivors", "before", r.Baseline)
		add("all survivors", "during", r.During)
	}
	for _, s := range r.Survivors {
		add(s.Name, "before", &s.Baseline)
		add(s.Name, "during", &s.During)
	}
	return t
}

func monitorTable(r *run.Report) Table {
	t := Table{Columns: []Column{
		{Field: "name", Head: "NAME"}, {Field: "lookups", Head: "LOOKUPS", Right: true},
		{Field: "lost", Head: "LOST", Right: true}, {Field: "row", Head: "MOST IN A ROW", Right: true},
	}}
	for _, m := range r.Monitors {
		tone := Plain
		if m.Lost > 0 {
			tone = Warn
		}
		t.Rows = append(t.Rows, []Value{plain(m.Name), plain(count(m.Lookups)), toned(count(m.Lost), tone), toned(count(m.Row), tone)})
	}
	return t
}

func unheardTable(r *run.Report, in *time.Location) Table {
	t := Table{Columns: []Column{{Field: "server", Head: "SERVER"}, {Field: "from", Head: "LISTENED FROM"}, {Field: "why", Head: "WHY"}}}
	for _, u := range r.Unheard {
		from := toned("not at all", Warn)
		if u.From != nil {
			from = plain(moment(*u.From, in))
		}
		t.Rows = append(t.Rows, []Value{plain(u.Server), from, plain(orUnknown(u.Why))})
	}
	return t
}

func timelineTable(r *run.Report, in *time.Location) Table {
	t := Table{Columns: []Column{{Field: "at", Head: "AT"}, {Field: "after", Head: "OUT FOR", Right: true}, {Field: "what", Head: "WHAT"}}}
	for _, e := range r.Timeline {
		after := toned(unknown, Dim)
		if r.Started != nil {
			after = plain(fmt.Sprintf("%+.1f s", e.At.Sub(*r.Started).Seconds()))
		}
		t.Rows = append(t.Rows, []Value{plain(moment(e.At, in)), after, plain(e.What)})
	}
	return t
}

func versions(r *run.Report) []Pair {
	names := make([]string, 0, len(r.Versions))
	for name := range r.Versions {
		names = append(names, name)
	}
	slices.Sort(names)
	out := make([]Pair, 0, len(names))
	for _, name := range names {
		out = append(out, Pair{Field: "versions." + clean(name), Label: clean(name), Value: plain(orUnknown(r.Versions[name]))})
	}
	return out
}

// spec is what was asked for.
func spec(r *run.Report) []Pair {
	s := r.Spec
	pairs := []Pair{{Field: "spec.stage", Label: "Stage", Value: plain(orUnknown(string(s.Stage)))}}
	if s.OfUpstream() {
		pairs = append(pairs, Pair{Field: "spec.upstream", Label: "Upstream", Value: plain(s.Upstream)})
	}
	pairs = append(pairs, []Pair{
		{Field: "spec.mode", Label: "Mode", Value: plain(orUnknown(string(s.Mode)))},
		{Field: "spec.durationSeconds", Label: "Duration", Value: plain(fmt.Sprintf("%d s", s.Seconds))},
		{Field: "spec.readiness", Label: "Readiness", Value: plain(orUnknown(string(s.Readiness)))},
		{Field: "spec.clients", Label: "Clients", Value: plain(pick(s.Everyone, "everyone", orUnknown(strings.Join(s.Clients, ", "))))},
		{Field: "spec.exclude", Label: "Excluded", Value: plain(orUnknown(strings.Join(s.Exclude, ", ")))},
		{Field: "spec.limits.stuck", Label: "Stuck clients allowed", Value: plain(count(s.Limits.Stuck))},
		{Field: "spec.limits.errorPoints", Label: "Extra errors allowed", Value: plain(fmt.Sprintf("%g points", s.Limits.ErrorPoints))},
		{Field: "spec.limits.expectSeconds", Label: "Expected within", Value: plain(fmt.Sprintf("%d s", s.Limits.ExpectSeconds))},
	}...)
	if s.Schedule != "" {
		pairs = append(pairs, Pair{Field: "spec.schedule", Label: "Schedule", Value: plain(s.Schedule)})
	}
	return append(pairs, Pair{Field: "clockErrorMs", Label: "Clocks agree within", Value: plain(fmt.Sprintf("%d ms", r.ClockErrorMs))})
}

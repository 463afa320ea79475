package run

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// sim is a fleet in miniature for transcripts: servers that take orders and
// record as the real ones do, on clocks of their own, and clients that ask once
// a second. It has no sockets and no clock but the transcript's.
type sim struct {
	now      time.Time
	start    time.Time
	servers  []*simServer
	clients  []*simClient
	facts    Facts // what the transcript set beside the servers
	spec     Spec
	run      Run
	monitors map[string]string // name → error
	stop     *StopWish
	restart  bool
	results  []Result
	shift    time.Duration // of the controller's clock, against true time
	diskFull bool
	log      []string
	hash     uint64
}

type simServer struct {
	name                   string
	addr                   netip.AddrPort
	boot                   int
	heard, unprobed        bool
	since                  time.Time
	offset                 time.Duration
	err                    int64
	ready, routed          *bool
	continuous, configured bool
	terminating, cordoned  bool
	features               []string
	version                string
	foreign                bool // its version is too far from the controller's
	lastAnswer, lastProbe  time.Time
	answersClients         bool
	qps, errs, retries     uint64 // background traffic a second
	denials, denied        uint64 // of it, and of all so far
	older                  bool   // it does not count them
	latency                float64
	fail                   map[string]string // call → what comes back
	stats                  protocol.Stats
	drill                  *protocol.DrillState
	ends, lease            time.Time // true time, not on its wall clock
	order                  *protocol.Order
	endedIDs               map[string]bool
	rec                    *protocol.Recording
	recEnds                time.Time
	seen                   map[string]*protocol.SeenClient
	noRenew                bool
	upstreams              []*simUpstream
	outage                 *protocol.OutageState
}

type simClient struct {
	addr    string
	on      []string
	follows string
	after   time.Duration
	every   int
	from    time.Time
	first   time.Time // first drilled
	asked   int
}

var simStart = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

func newSim() *sim {
	s := &sim{now: simStart, start: simStart, monitors: map[string]string{}}
	s.facts.Enabled = true
	s.spec = Spec{
		ID: "d1", Fleet: "office", Server: "a", Stage: StageServer, Mode: protocol.ModeDrop, Seconds: 60,
		Readiness: protocol.ReadinessFail, Everyone: true, Limits: DefaultLimits, By: "ann", Reason: "test",
		Timings: DefaultTimings, Requested: simStart, ProbeToken: strings.Repeat("0", 32),
	}
	return s
}

// clock is the controller's.
func (s *sim) clock() time.Time { return s.now.Add(s.shift) }

// seenAt is a moment of true time on the controller's clock.
func (s *sim) seenAt(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(s.shift)
}

func (s *sim) server(name string) *simServer {
	for _, v := range s.servers {
		if v.name == name {
			return v
		}
	}
	return nil
}

func (s *sim) addServer(name string) {
	s.servers = append(s.servers, &simServer{
		name: name, addr: netip.MustParseAddrPort(fmt.Sprintf("192.0.2.%d:53", len(s.servers)+1)), boot: 1, heard: true, since: s.now.Add(-time.Hour),
		features: []string{protocol.FeatureClients, protocol.FeatureDrill, protocol.FeatureRecordings}, version: "0.1.0",
		lastProbe: s.now, answersClients: true, qps: 100, latency: 1, fail: map[string]string{}, endedIDs: map[string]bool{},
		seen: map[string]*protocol.SeenClient{}, configured: true, continuous: true,
		stats: protocol.Stats{LatencyMs: make([]uint64, len(protocol.LatencyBoundsMs)+1)},
	})
}

func (v *simServer) bootID() string              { return fmt.Sprintf("%s-boot%d", v.name, v.boot) }
func (v *simServer) clock(t time.Time) time.Time { return t.Add(v.offset) }

func (v *simServer) restart(now time.Time) {
	v.boot++
	v.drill, v.order, v.rec, v.outage = nil, nil, nil, nil
	for _, u := range v.upstreams {
		*u = simUpstream{addr: u.addr, zone: u.zone, keeps: u.keeps}
	}
	v.endedIDs = map[string]bool{}
	v.denied = 0
	v.stats = protocol.Stats{LatencyMs: make([]uint64, len(protocol.LatencyBoundsMs)+1)}
}

// pass lets a second pass: clients ask, clocks run, drills and recordings end.
func (s *sim) pass() {
	s.now = s.now.Add(time.Second)
	for _, v := range s.servers {
		if d := v.drill; d != nil && d.Ended == nil {
			if !s.now.Before(v.ends) { // on its monotonic clock: a step of the wall clock moves nothing
				v.endDrill(v.clock(s.now), protocol.EndExpired)
			} else if !s.now.Before(v.lease) {
				v.endDrill(v.clock(s.now), protocol.EndAbandoned)
			}
		}
		v.passUpstreams(s.now)
		if v.rec != nil && !v.rec.Frozen && !v.clock(s.now).Before(v.recEnds) {
			v.rec.Frozen = true
		}
		if !v.unprobed {
			v.lastProbe = s.now
		}
		v.count(v.qps, v.retries, v.errs, v.latency)
		v.denied += v.denials
		if v.answersClients && !v.unprobed {
			v.lastAnswer = s.now
		}
	}
	for _, c := range s.clients {
		if c.every > 1 && c.asked%c.every != 0 {
			c.asked++
			continue
		}
		c.asked++
		s.hash += 8
		on := c.on[0]
		if len(c.on) > 1 {
			on = c.on[(c.asked)%len(c.on)]
		}
		if c.follows != "" && !c.first.IsZero() && s.now.Sub(c.first) >= c.after && s.server(c.on[0]).drilling() {
			on = c.follows
		}
		s.server(on).ask(s, c)
	}
}

func (v *simServer) count(queries, retries, errs uint64, latency float64) {
	v.stats.Queries += queries
	v.stats.Questions += queries - retries
	v.stats.Retries += retries
	v.stats.Answers += queries
	v.stats.ServFail += errs
	for i, b := range protocol.LatencyBoundsMs {
		if latency <= b {
			v.stats.LatencyMs[i] += queries
			return
		}
	}
}

func (v *simServer) drilling() bool { return v.drill != nil && v.drill.Ended == nil }

func (v *simServer) endDrill(at time.Time, why protocol.DrillEnd) {
	v.drill.Ended, v.drill.End = &at, why
	v.endedIDs[v.drill.ID] = true
}

// ask is one query of a client.
func (v *simServer) ask(s *sim, c *simClient) {
	at := v.clock(s.now)
	ms := at.UnixMilli()
	drilled := v.drilling() && s.targeted(v, c.addr)
	seen := v.seen[c.addr]
	if seen == nil {
		seen = &protocol.SeenClient{Address: c.addr, First: s.now}
		v.seen[c.addr] = seen
	}
	seen.Last = s.now
	seen.Queries++
	if drilled {
		if c.first.IsZero() {
			c.first = s.now
		}
	} else {
		seen.Answers++
		v.lastAnswer = s.now
	}
	if v.rec == nil || v.rec.Frozen {
		return
	}
	i := slices.IndexFunc(v.rec.Clients, func(r protocol.RecordedClient) bool { return r.Address == c.addr })
	if i < 0 {
		v.rec.Clients = append(v.rec.Clients, protocol.RecordedClient{Address: c.addr, FirstMs: ms})
		i = len(v.rec.Clients) - 1
	}
	r := &v.rec.Clients[i]
	r.LastMs = ms
	r.Queries++
	if drilled {
		r.Drilled++
		r.DrilledQuestions++
		if r.FirstDrilledMs == 0 {
			r.FirstDrilledMs = ms
		}
		r.LastDrilledMs = ms
	} else {
		r.Answers++
		if r.FirstAnswerMs == 0 {
			r.FirstAnswerMs = ms
		}
		r.LastAnswerMs = ms
	}
	if len(r.Samples) < protocol.SamplesPerClient {
		r.Samples = append(r.Samples, protocol.Sample{Hash: s.hash, Drilled: drilled, FirstMs: ms, LastMs: ms})
	}
}

func (s *sim) targeted(v *simServer, addr string) bool {
	a := netip.MustParseAddr(addr)
	in := func(list []string) bool {
		return slices.ContainsFunc(list, func(p string) bool { return netip.MustParsePrefix(p).Contains(a) })
	}
	return (v.order.Everyone || in(v.order.Targets)) && !in(v.order.Exclude) && !in(v.order.Never)
}

// observe is what the controller's shell would have seen.
func (s *sim) observe() Observation {
	f := s.facts
	f.Now = s.clock()
	f.Servers = nil
	needs := s.run.Needs(s.clock())
	f.WithSeen = needs.Seen
	if len(f.Resolved.Prefixes) == 0 {
		f.Resolved = Targets{Everyone: s.spec.Everyone, Exclude: slices.Clone(f.Resolved.Exclude)}
		for _, c := range s.spec.Exclude {
			f.Resolved.Exclude = append(f.Resolved.Exclude, netip.MustParsePrefix(c))
		}
		for _, c := range s.spec.Clients {
			if p, err := netip.ParsePrefix(c); err == nil {
				f.Resolved.Prefixes = append(f.Resolved.Prefixes, p)
			} else if a, err := netip.ParseAddr(c); err == nil {
				f.Resolved.Prefixes = append(f.Resolved.Prefixes, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	o := Observation{Results: s.results, Stop: s.stop, Restarted: s.restart}
	s.results, s.restart = nil, false
	for _, v := range s.servers {
		f.Servers = append(f.Servers, s.fact(v, needs.Seen))
		if v.heard && needs.AllStats && v.fail["stats"] == "" {
			if o.Stats == nil {
				o.Stats = map[string]protocol.Stats{}
			}
			st := v.stats
			st.BootID, st.NowMs = v.bootID(), v.clock(s.now).UnixMilli()
			st.LatencyMs = slices.Clone(st.LatencyMs)
			if !v.older {
				st.NXDomain = new(v.denied)
			}
			o.Stats[v.name] = st
		}
		if v.heard && slices.Contains(needs.Parts, v.name) && v.rec != nil && v.fail["part"] == "" {
			if o.Parts == nil {
				o.Parts = map[string]protocol.Recording{}
			}
			part := *v.rec
			part.NowMs = v.clock(s.now).UnixMilli()
			part.Clients = slices.Clone(part.Clients)
			if !needs.Samples {
				for i := range part.Clients {
					part.Clients[i].Samples = nil
				}
			}
			o.Parts[v.name] = part
		}
	}
	if needs.Monitors {
		for _, m := range s.spec.Monitors {
			o.Lookups = append(o.Lookups, Lookup{Name: m.Name, At: s.clock(), Error: s.monitors[m.Name]})
		}
	}
	o.Facts = f
	return o
}

func (s *sim) fact(v *simServer, seen bool) ServerFacts {
	t := ServerFacts{
		Name: v.name, DNS: []netip.AddrPort{v.addr}, Heard: v.heard, Since: v.since.Add(s.shift), OffsetMs: (v.offset - s.shift).Milliseconds(), OffsetErr: v.err,
		Ready: v.ready, Routed: v.routed, Terminating: v.terminating, Cordoned: v.cordoned, LastAnswer: s.seenAt(v.lastAnswer), LastProbe: s.seenAt(v.lastProbe),
	}
	if v.unprobed {
		t.ProbeError = "timeout"
	}
	if !v.heard {
		t.Error = "connection refused"
		return t
	}
	t.State = protocol.State{BootID: v.bootID(), Version: v.version, Features: v.features, Now: v.clock(s.now),
		Ready: &protocol.ReadyState{Configured: v.configured, Continuous: v.continuous}}
	if v.foreign { // as controller/fleet has it
		t.State.Features, t.Error = nil, "it is version "+v.version+", and this controller works with others"
	}
	if v.drill != nil && slices.Contains(v.features, protocol.FeatureDrill) {
		d := *v.drill
		t.State.Drill = &d
	}
	v.tellUpstreams(&t.State)
	if v.rec != nil {
		r := v.rec.RecordingState
		t.State.Recording = &r
	}
	if seen {
		for _, c := range v.seen {
			one := *c
			one.First, one.Last = s.seenAt(c.First), s.seenAt(c.Last)
			t.Seen = append(t.Seen, one)
		}
		slices.SortFunc(t.Seen, func(a, b protocol.SeenClient) int { return strings.Compare(a.Address, b.Address) })
	}
	return t
}

// do carries an action out on the simulated server.
func (s *sim) do(a Action) {
	v := s.server(a.Server)
	res := Result{Kind: a.Kind, Server: a.Server, BootID: a.BootID, At: s.clock()}
	if s.diskFull && (a.Kind == ActRecord || a.Kind == ActOrder) { // as the shell has it: what is not on disk is not done
		res.Error = "not sent: the run cannot be written down"
		s.results = append(s.results, res)
		return
	}
	problem := func(reason protocol.Reason) {
		res.Reason, res.Error = reason, "refused with "+string(reason)
	}
	fail := v.fail[string(a.Kind)]
	switch {
	case !v.heard || fail == "timeout":
		res.Error = "timeout"
	case fail == "lost": // done, but the answer does not come
		s.apply(v, a, &Result{})
		res.Error = "timeout"
	case fail != "":
		problem(protocol.Reason(fail))
	case a.BootID != v.bootID():
		problem(protocol.ReasonOtherBoot)
	default:
		s.apply(v, a, &res)
	}
	s.results = append(s.results, res)
}

func (s *sim) apply(v *simServer, a Action, res *Result) {
	at := v.clock(s.now)
	if a.Upstream != "" {
		v.applyUpstream(s.now, a, res)
		return
	}
	switch a.Kind {
	case ActRecord:
		if v.rec != nil && !v.rec.Frozen && v.rec.Drill != a.Drill {
			res.Reason, res.Error = protocol.ReasonOtherRecording, "recording for "+v.rec.Drill
			return
		}
		if v.rec == nil || v.rec.Drill != a.Drill {
			v.recEnds = at.Add(time.Duration(a.Recording.Seconds) * time.Second)
			v.rec = &protocol.Recording{BootID: v.bootID(), RecordingState: protocol.RecordingState{Drill: a.Drill, Fleet: a.Recording.Fleet, Started: at, EndsAt: v.recEnds}}
		}
	case ActUnrecord:
		if v.rec == nil || v.rec.Drill != a.Drill {
			res.Reason, res.Error = protocol.ReasonNotFound, "no such recording"
			return
		}
		v.rec = nil
	case ActOrder:
		switch {
		case v.endedIDs[a.Drill]:
			res.Reason, res.Error = protocol.ReasonDrillEnded, "ended"
			return
		case v.rec == nil || v.rec.Drill != a.Drill:
			res.Reason, res.Error = protocol.ReasonNotRecording, "not recording"
			return
		}
		if v.drill == nil {
			v.order = a.Order
			v.lease = s.now.Add(protocol.LeaseSeconds * time.Second)
			v.ends = s.now.Add(time.Duration(a.Order.DurationSeconds) * time.Second)
			v.drill = &protocol.DrillState{ID: a.Drill, Mode: a.Order.Mode, Started: at, EndsAt: at.Add(time.Duration(a.Order.DurationSeconds) * time.Second)}
		}
		d := *v.drill
		res.Drill = &d
	case ActRenew:
		if !v.drilling() {
			res.Reason, res.Error = protocol.ReasonDrillEnded, "ended"
			return
		}
		v.lease = s.now.Add(protocol.LeaseSeconds * time.Second)
	case ActEnd:
		if v.drill == nil {
			v.endedIDs[a.Drill] = true
			res.Reason, res.Error = protocol.ReasonNotFound, "no such drill"
			return
		}
		if v.drilling() {
			v.endDrill(at, protocol.EndDeleted)
		}
		d := *v.drill
		res.Drill = &d
	}
}

// step lets the controller look, and do what the machine says.
func (s *sim) step() {
	before := len(s.run.Timeline)
	phase := s.run.Phase
	var actions []Action
	s.run, actions = Step(s.run, s.observe(), s.clock())
	s.stop = nil
	for _, e := range s.run.Timeline[before:] {
		s.logf("%s", e.What)
	}
	if s.run.Phase != phase {
		s.logf("= %s", s.run.Phase)
	}
	var quiet []string
	for _, a := range actions {
		if a.Kind != ActRenew {
			quiet = append(quiet, fmt.Sprintf("%s %s", a.Kind, a.Server))
		}
		s.do(a)
	}
	if len(quiet) > 0 {
		s.logf("-> %s", strings.Join(quiet, ", "))
	}
}

func (s *sim) logf(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf("%4ds  %s", int(s.now.Sub(s.start).Seconds()), fmt.Sprintf(format, args...)))
}

func (s *sim) take() string {
	out := strings.Join(s.log, "\n")
	s.log = nil
	if out == "" {
		return "(nothing)\n"
	}
	return out + "\n"
}

// command is one command of a transcript.
func (s *sim) command(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "servers":
		for _, a := range d.CmdArgs {
			s.addServer(a.Key)
		}
		// Everybody was there for an hour before.
		return ""
	case "client":
		c := &simClient{addr: d.CmdArgs[0].Key, every: 1}
		for _, a := range d.CmdArgs[1:] {
			switch a.Key {
			case "on":
				c.on = a.Vals
			case "follows":
				c.follows = a.Vals[0]
			case "after":
				c.after = duration(t, a.Vals[0])
			case "every":
				c.every, _ = strconv.Atoi(a.Vals[0])
			default:
				d.Fatalf(t, "client: %s", a.Key)
			}
		}
		s.clients = append(s.clients, c)
		return ""
	case "spec":
		for _, a := range d.CmdArgs {
			s.setSpec(t, d, a.Key, a.Vals)
		}
		return ""
	case "server":
		for _, a := range d.CmdArgs[1:] {
			s.setServer(t, d, s.server(d.CmdArgs[0].Key), a.Key, a.Vals)
		}
		return ""
	case "facts":
		for _, a := range d.CmdArgs {
			s.setFacts(t, d, a.Key, a.Vals)
		}
		return ""
	case "monitor":
		s.monitors[d.CmdArgs[0].Key] = ""
		if len(d.CmdArgs) > 1 && d.CmdArgs[1].Key == "lost" {
			s.monitors[d.CmdArgs[0].Key] = "timeout"
		}
		return ""
	case "pass": // time passes before the run is asked for
		for range int(duration(t, d.CmdArgs[0].Key).Seconds()) {
			s.pass()
		}
		return ""
	case "start":
		s.start = s.now
		s.run = New(s.spec, s.clock())
		s.step()
		return s.take()
	case "step":
		for range int(duration(t, d.CmdArgs[0].Key).Seconds()) {
			s.pass()
			s.step()
		}
		return s.take()
	case "away": // the controller is away: time passes, nobody looks; then another process, maybe on a clock that was set
		for range int(duration(t, d.CmdArgs[0].Key).Seconds()) {
			s.pass()
		}
		for _, a := range d.CmdArgs[1:] {
			s.shift += duration(t, a.Vals[0])
		}
		s.restart = true
		return ""
	case "until":
		for range 2000 {
			s.pass()
			s.step()
			if string(s.run.Phase) == d.CmdArgs[0].Key || d.CmdArgs[0].Key == "over" && s.run.Over() {
				break
			}
		}
		return s.take()
	case "stop":
		s.stop = &StopWish{By: d.CmdArgs[0].Key}
		return ""
	case "guards":
		s.run = New(s.spec, s.now)
		s.run.Phase = Asking
		var out []string
		for _, c := range Guards(s.spec, s.observe().Facts) {
			if !c.Passed || c.Ignored {
				mark := ""
				if c.Ignored {
					mark = " (ignored)"
				}
				out = append(out, fmt.Sprintf("%s%s: %s", c.Reason, mark, c.Message))
			}
		}
		if out == nil {
			return "allowed\n"
		}
		return strings.Join(out, "\n") + "\n"
	case "plan":
		s.run = New(s.spec, s.now)
		s.run.Phase = Asking
		return planText(MakePlan(s.spec, s.observe().Facts))
	case "report":
		return reportText(s.run.Report())
	case "left":
		return s.left()
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return ""
}

// left says what is left on the servers.
func (s *sim) left() string {
	var out []string
	for _, v := range s.servers {
		if v.drilling() {
			out = append(out, v.name+" is drilled")
		}
		if v.outage != nil && v.outage.Ended == nil {
			out = append(out, v.outage.Address+" is away")
		}
		if v.rec != nil && !v.rec.Frozen {
			out = append(out, v.name+" records")
		}
	}
	if out == nil {
		return "nothing\n"
	}
	return strings.Join(out, "\n") + "\n"
}

func planText(p Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "allowed: %v\n", p.Allowed)
	for _, c := range p.Targets {
		fmt.Fprintf(&b, "target %s single-homed=%v\n", c.Address, c.SingleHomed)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "%s: %s\n", w.Kind, w.Message)
	}
	for _, st := range p.Steps {
		fmt.Fprintf(&b, "- %s\n", st)
	}
	return b.String()
}

func reportText(r Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s: %s\n", r.Phase, r.Outcome, r.Reason, r.Message)
	opt := func(name string, f *float64) {
		if f != nil {
			fmt.Fprintf(&b, "%s %.3g\n", name, *f)
		}
	}
	fmt.Fprintf(&b, "followed %d stuck %d quiet %d elsewhere %d unknown %d, lost %s (sampled %v), drilled %d\n", r.Verdicts.Followed, r.Verdicts.Stuck,
		r.Verdicts.Quiet, r.Verdicts.Elsewhere, r.Verdicts.Unknown, lostText(r.Lost), r.LostSampled, r.Drilled)
	opt("coverage", r.Coverage)
	opt("notice", r.TimeToNoticeSeconds)
	opt("move", r.TimeToMoveSeconds)
	opt("switch", r.BalancerSwitchSeconds)
	opt("held", r.HeldSeconds)
	opt("back", r.BackSeconds)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "finding %s: %s\n", f.Reason, f.Message)
	}
	for _, v := range r.Survivors {
		if v.During.Answers == 0 && r.During != nil {
			fmt.Fprintf(&b, "%s answered nobody: asked %s, P50 %s, P99 %s, NXDOMAIN %s\n", v.Name,
				numberText(v.During.RetriesPerQuestion), numberText(v.During.P50Ms), numberText(v.During.P99Ms), numberText(v.During.DenialShare))
		}
	}
	for _, c := range r.Clients {
		fmt.Fprintf(&b, "%s %s drilled=%d lost=%s", c.Address, c.Verdict, c.Drilled, lostText(c.Lost))
		if c.FailoverSeconds != nil {
			fmt.Fprintf(&b, " failover=%.3g by=%s", *c.FailoverSeconds, c.AnsweredBy)
		} else if c.Verdict == Followed {
			fmt.Fprintf(&b, " asked %s before", c.AnsweredBy)
		}
		if c.Returned != "" {
			fmt.Fprintf(&b, " %s", c.Returned)
		}
		b.WriteString("\n")
	}
	for _, u := range r.Unheard {
		fmt.Fprintf(&b, "unheard %s: %s", u.Server, u.Why)
		if u.From != nil {
			fmt.Fprintf(&b, " (from %s after the start)", u.From.Sub(*r.Started))
		}
		b.WriteString("\n")
	}
	for _, u := range r.Upstreams {
		fmt.Fprintf(&b, "upstream %s %s %s: %.3g/s before, %.3g/s during, %d in all", u.Address, u.Zone, u.Role, u.Before, u.During, u.Asked)
		if u.Ejected != "" {
			fmt.Fprintf(&b, ", ejected (%s)", u.Ejected)
		}
		b.WriteString("\n")
	}
	for _, m := range r.Monitors {
		fmt.Fprintf(&b, "monitor %s: %d of %d lost, %d in a row\n", m.Name, m.Lost, m.Lookups, m.Row)
	}
	if r.ClockErrorMs != 0 {
		fmt.Fprintf(&b, "clock error %d ms\n", r.ClockErrorMs)
	}
	return b.String()
}

// numberText is a figure, as a transcript has it.
func numberText(f *float64) string {
	if f == nil {
		return "?"
	}
	return strconv.FormatFloat(*f, 'g', 3, 64)
}

// lostText is how many were lost, as a transcript has it.
func lostText(n *int) string {
	if n == nil {
		return "?"
	}
	return strconv.Itoa(*n)
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

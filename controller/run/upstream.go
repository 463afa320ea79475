package run

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// StageUpstream takes one upstream away from a server that asks upstreams: a
// node cache. All of the cache's clients are in it, and none of them is to
// notice; so what counts is what they had from the cache itself.
const StageUpstream Stage = "upstream"

// Modes of StageUpstream.
const (
	ModeBlackhole = protocol.DrillMode(protocol.OutageBlackhole) // what is sent to it vanishes: the nearest to a dead server
	ModeDown      = protocol.DrillMode(protocol.OutageDown)      // what it answers counts as failed
)

// OfUpstream reports whether the drill is of an upstream.
func (s Spec) OfUpstream() bool { return s.Stage == StageUpstream }

// WithDefaults is the spec with what it leaves out as its stage has it. Whoever
// loses an upstream is every client of the server: there is nobody to choose.
func (s Spec) WithDefaults() Spec {
	if s.Stage == "" {
		s.Stage = StageServer
	}
	if s.OfUpstream() {
		if s.Mode == "" {
			s.Mode = ModeBlackhole
		}
		s.Everyone = s.Everyone || len(s.Clients) == 0
		if a, err := netip.ParseAddr(s.Upstream); err == nil {
			s.Upstream = netip.AddrPortFrom(a, dnsPort).String()
		} else if a, err := netip.ParseAddrPort(s.Upstream); err == nil {
			s.Upstream = a.String() // as the server writes it
		}
		return s
	}
	if s.Mode == "" {
		s.Mode = protocol.ModeDrop
	}
	if s.Readiness == "" {
		s.Readiness = protocol.ReadinessFail
	}
	return s
}

// dnsPort is an upstream's where its address has none.
const dnsPort = 53

// AddressesUpstream reports whether the spec names an upstream as its stage wants it.
func (s Spec) AddressesUpstream() bool {
	if !s.OfUpstream() {
		return s.Upstream == ""
	}
	a, err := netip.ParseAddrPort(s.Upstream)
	return err == nil && !a.Addr().Is4In6()
}

// KnowsMode reports whether the mode is one of the stage's.
func (s Spec) KnowsMode() bool {
	if s.OfUpstream() {
		return s.Mode == ModeDown || s.Mode == ModeBlackhole
	}
	return s.Mode == protocol.ModeDrop || s.Mode == protocol.ModeRefused
}

// KnowsReadiness reports whether the readiness is one of the stage's.
func (s Spec) KnowsReadiness() bool {
	if s.OfUpstream() {
		return s.Readiness == ""
	}
	return s.Readiness == protocol.ReadinessFail || s.Readiness == protocol.ReadinessPass
}

// upstreams of the server that have the address, one a zone.
func (t *ServerFacts) upstreams(address string) []protocol.UpstreamState {
	var out []protocol.UpstreamState
	for _, u := range t.State.Upstreams {
		if u.Address == address {
			out = append(out, u)
		}
	}
	return out
}

// upstreamNames are the addresses of all that there is to name.
func (t *ServerFacts) upstreamNames() string {
	var names []string
	for _, u := range t.State.Upstreams {
		if !slices.Contains(names, u.Address) {
			names = append(names, u.Address)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// wellBeside are the upstreams beside one that could answer in its place, and
// the zone for which there is none: "" where every zone has one.
func (t *ServerFacts) wellBeside(address string) (well []string, without string) {
	for _, mine := range t.upstreams(address) {
		found := false
		for _, u := range t.State.Upstreams {
			if u.Zone != mine.Zone || u.Address == address || !u.Healthy {
				continue
			}
			found = true
			if !slices.Contains(well, u.Address) {
				well = append(well, u.Address)
			}
		}
		if !found && without == "" {
			without = mine.Zone
		}
	}
	return well, without
}

// ejected are the zones for which an upstream is not well, with the cause.
func ejected(list []protocol.UpstreamState) string {
	var out []string
	for _, u := range list {
		if !u.Healthy {
			out = append(out, fmt.Sprintf("zone %q (%s)", u.Zone, causeOf(u)))
		}
	}
	return strings.Join(out, " and ")
}

func causeOf(u protocol.UpstreamState) string {
	switch {
	case u.Loop:
		return "loop"
	case len(u.Transports) == 0 || u.Transports[0].Cause == "":
		return "ejected"
	}
	return u.Transports[0].Cause
}

// upstreamBounds says what is out of bounds in a drill of an upstream.
func (s Spec) upstreamBounds() *FieldError {
	switch {
	case s.Upstream == "":
		return &FieldError{"upstream", "no upstream is named: give the address of the one to take away, IP:PORT"}
	case !s.AddressesUpstream():
		return &FieldError{"upstream", fmt.Sprintf("it is %q; it is to be IP:PORT, or [IP]:PORT for IPv6", s.Upstream)}
	case !s.KnowsMode():
		return &FieldError{"mode", fmt.Sprintf("it is %q; for an upstream it is to be %q or %q", s.Mode, ModeBlackhole, ModeDown)}
	case !s.KnowsReadiness():
		return &FieldError{"readiness", "the server of an upstream's drill stays ready: leave readiness out"}
	case len(s.Clients) > 0:
		return &FieldError{"clients", "they cannot be chosen: an upstream is away for every client of its server; leave clients out"}
	case len(s.Exclude) > 0:
		return &FieldError{"exclude", "nobody can be left out: an upstream is away for every client of its server; leave exclude out"}
	}
	return nil
}

// The guards that ask another question of an upstream than of a server.

func upstreamNotFound(s Spec, f *Facts) (string, bool) {
	t := f.Server(s.Server)
	switch {
	case t == nil:
		return fmt.Sprintf("the fleet %s has no server %q; it has %s", s.Fleet, s.Server, f.serverNames()), true
	case !t.Heard || t.incompatible() != "" || !s.AddressesUpstream(): // another guard says it
	case !t.Has(protocol.FeatureUpstreams):
		return fmt.Sprintf("%s has no upstreams that a drill could take away: its Corefile has no \"hedge\" (\"forward\" cannot be drilled)", s.Server), true
	case len(t.upstreams(s.Upstream)) == 0:
		return fmt.Sprintf("%s has no upstream %s; it has %s", s.Server, s.Upstream, t.upstreamNames()), true
	}
	return "", false
}

func upstreamBusy(s Spec, f *Facts) (string, bool) {
	message, refused := targetBusy(s, f)
	if t := f.Server(s.Server); !refused && t != nil {
		if why := ejected(t.upstreams(s.Upstream)); why != "" {
			return fmt.Sprintf("%s is away already for %s: a drill of it would show nothing", s.Upstream, why), true
		}
	}
	return message, refused
}

func lastUpstream(s Spec, f *Facts) (string, bool) {
	t := f.Server(s.Server)
	if t == nil || !t.Heard || len(t.upstreams(s.Upstream)) == 0 {
		return "", false
	}
	well, without := t.wellBeside(s.Upstream)
	if without != "" {
		return fmt.Sprintf("no other upstream of %s is well for zone %q: without %s nothing would answer", s.Server, without, s.Upstream), true
	}
	return "well beside it: " + strings.Join(well, ", "), false
}

func noUpstreamHealth(s Spec, f *Facts) (string, bool) {
	t := f.Server(s.Server)
	if t == nil || !t.Heard {
		return "", false
	}
	for _, u := range t.upstreams(s.Upstream) {
		if len(u.Transports) == 0 {
			return fmt.Sprintf("%s keeps no health of %s for zone %q: nothing would notice", s.Server, s.Upstream, u.Zone), true
		}
	}
	return "its health is learnt from what it answers", false
}

func upstreamUnused(s Spec, f *Facts) (string, bool) {
	t := f.Server(s.Server)
	if t == nil || !t.Heard || len(t.upstreams(s.Upstream)) == 0 {
		return "", false
	}
	var last int64
	for _, u := range t.upstreams(s.Upstream) {
		last = max(last, u.LastAskedMs)
	}
	if last == 0 || f.Now.Sub(time.UnixMilli(last-t.OffsetMs)) > seenWithin {
		return fmt.Sprintf("%s has not asked %s in the last hour: nothing would show", s.Server, s.Upstream), true
	}
	return "it was asked in the last hour", false
}

func noUpstreamHeadroom(Spec, *Facts) (string, bool) {
	return "what the other upstreams could carry is not known here", false
}

// upstreamSteps say what a drill of an upstream would do, in order.
func upstreamSteps(s Spec) []string {
	what := "counts what %s answers as failed"
	if s.Mode == ModeBlackhole {
		what = "sends nothing more to %s, as if it were dead"
	}
	return []string{
		fmt.Sprintf("Reading, %d s: what the clients of %s have now, and how often it asks each upstream; nothing changes", s.Timings.ReadingSeconds, s.Server),
		"Asking: every guard again",
		fmt.Sprintf("Out, %d s: %s "+what+", and ends that by itself", s.Seconds, s.Server, s.Upstream),
		fmt.Sprintf("Back, at most %d s: until a probe or an answer has brought %s back", BackSeconds, s.Upstream),
		"then the report",
	}
}

// outageOrder is the order of a drill of an upstream.
func (r *Run) outageOrder() *protocol.OutageOrder {
	return &protocol.OutageOrder{
		ID: r.Spec.ID, Fleet: r.Spec.Fleet, Kind: protocol.OutageKind(r.Spec.Mode), DurationSeconds: r.Spec.Seconds,
		Lease: true, By: r.Spec.By, Reason: r.Spec.Reason,
	}
}

// AsDrill is an outage of an upstream as the machine follows it: like any
// drill's state. Nil for one that never began.
func AsDrill(o *protocol.OutageState) *protocol.DrillState {
	if o == nil || o.Started.IsZero() {
		return nil
	}
	d := &protocol.DrillState{
		ID: o.ID, Fleet: o.Fleet, Mode: protocol.DrillMode(o.Kind), Started: o.Started, EndsAt: o.EndsAt, Ended: o.Ended, End: o.End, Drilled: o.Hit,
	}
	if o.LeaseEnds != nil {
		d.LeaseEnds = *o.LeaseEnds
	}
	return d
}

// Drill is the drill that the server says is on, or the one that ended last: of
// itself, or of one of its upstreams.
func (s Stage) drill(t *protocol.State) *protocol.DrillState {
	if s == StageUpstream {
		return AsDrill(t.Outage)
	}
	return t.Drill
}

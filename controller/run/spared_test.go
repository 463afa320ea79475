package run

import (
	"net/netip"
	"strings"
	"testing"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Monitors that ask from an address that is never drilled prove nothing, and the
// plan says so, with why.
func TestMonitorsSpared(t *testing.T) {
	f := Facts{
		Servers:        []ServerFacts{{Name: "ns1", DNS: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:53")}}, {Name: "ns2", DNS: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.2:53")}}},
		Infrastructure: []netip.Prefix{netip.MustParsePrefix("192.0.2.240/28")},
		Resolved:       Targets{Everyone: true, Exclude: []netip.Prefix{netip.MustParsePrefix("192.0.2.77/32")}},
	}
	spec := Spec{Server: "ns1", Stage: StageServer, Mode: protocol.ModeDrop, Seconds: 30, Everyone: true, Monitors: []Monitor{{Name: "a.example", Type: "A"}}}
	warns := func(s Spec, from string) string {
		f.MonitorsFrom = netip.Addr{}
		if from != "" {
			f.MonitorsFrom = netip.MustParseAddr(from)
		}
		for _, w := range MakePlan(s, f).Warnings {
			if w.Kind == WarnMonitorsSpared {
				return w.Message
			}
		}
		return ""
	}
	for from, says := range map[string]string{
		"127.0.0.1": "loopback", "::1": "loopback", "192.0.2.2": "the address of ns2", "192.0.2.1": "the address of ns1", "192.0.2.250": "infrastructure",
		"192.0.2.9": "", "127.0.0.2": "", "": "",
		"192.0.2.77": "", // somebody chose that
	} {
		if got := warns(spec, from); (got == "") != (says == "") || !strings.Contains(got, says) || !strings.Contains(got, from) && says != "" {
			t.Errorf("from %q: %q, want %q", from, got, says)
		}
	}
	none, cache := spec, spec
	none.Monitors = nil
	cache.Stage, cache.Upstream, cache.Everyone = StageUpstream, "10.0.0.53:53", false
	if got := warns(none, "127.0.0.1") + warns(cache, "127.0.0.1"); got != "" {
		t.Errorf("without monitors, or of an upstream: %q", got)
	}
}

// What the server would refuse is out of bounds before it is asked.
func TestTexts(t *testing.T) {
	spec := Spec{Stage: StageServer, Mode: protocol.ModeDrop, Readiness: protocol.ReadinessFail, Seconds: 30, Everyone: true, Limits: DefaultLimits, Reason: "weekly: ünïcode ok", By: "uid:1000"}
	if e := spec.Bounds(); e != nil {
		t.Fatal(e)
	}
	for field, change := range map[string]func(*Spec){
		"reason": func(s *Spec) { s.Reason = "a\nb" }, "by": func(s *Spec) { s.By = strings.Repeat("b", protocol.MaxBy+1) }, "fleet": func(s *Spec) { s.Fleet = "\xff" },
	} {
		s := spec
		change(&s)
		if e := s.Bounds(); e == nil || e.Field != field {
			t.Errorf("%s: %v", field, e)
		}
	}
}

// What was lost is out of questions, and the report has those beside the queries.
func TestVerdictCountsQuestions(t *testing.T) {
	here := &witness{server: "ns1", peer: &Peer{}, clients: map[string]protocol.RecordedClient{"10.0.0.1": {Address: "10.0.0.1", Drilled: 40, DrilledQuestions: 20, FirstDrilledMs: 1000}}}
	r := &Run{}
	if c := r.verdict("10.0.0.1", here, nil, false); c.Drilled != 40 || c.DrilledQuestions != 20 {
		t.Errorf("%+v", c)
	}
}

package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// moments are the bad moments of a run, by name: what happens, and how it ends
// again where it does.
var moments = map[string]func(s *sim){
	"controller killed, back after 10 s":            func(s *sim) { s.away(10, 0) },
	"controller killed, back after 45 s":            func(s *sim) { s.away(45, 0) },
	"controller killed, back after 8 minutes":       func(s *sim) { s.away(480, 0) },
	"controller killed, its clock set back an hour": func(s *sim) { s.away(10, -time.Hour) },
	"controller killed, its clock an hour ahead":    func(s *sim) { s.away(10, time.Hour) },
	"drilled server killed":                         func(s *sim) { s.server("a").restart(s.now) },
	"drilled server gone": func(s *sim) {
		a := s.server("a")
		a.heard, a.since, a.unprobed = false, s.now, true
	},
	"other server killed":                  func(s *sim) { s.server("c").restart(s.now) },
	"other server's control endpoint gone": func(s *sim) { s.server("c").heard, s.server("c").since = false, s.now },
	"other server slow": func(s *sim) {
		for _, call := range []string{"record", "part", "unrecord"} {
			s.server("c").fail[call] = "lost"
		}
	},
	"other server of an older version": func(s *sim) {
		c := s.server("c")
		c.restart(s.now)
		c.version, c.features = "0.0.1", []string{"clients"}
	},
	"every answer lost": func(s *sim) {
		for _, v := range s.servers {
			for _, call := range []string{"record", "unrecord", "order", "renew", "end"} {
				v.fail[call] = "lost"
			}
		}
	},
	"disk full":      func(s *sim) { s.diskFull = true },
	"stopped by bob": func(s *sim) { s.stop = &StopWish{By: "bob"} },
	"drills off":     func(s *sim) { s.facts.Enabled = false },
	"offsets get worse": func(s *sim) {
		for _, v := range s.servers {
			v.err = 400
		}
	},
}

// finalWithin is how long after the end of an outage, or after what went wrong later
// than that, a run is final, with a real run's waits.
const finalWithin = 5 * time.Minute

func (s *sim) away(seconds int, set time.Duration) {
	for range seconds {
		s.pass()
	}
	s.shift += set
	s.restart = true
}

// TestMoments is every phase x every bad moment: the outcome that must come out,
// how long it took with a real run's waits, and that nothing is left.
func TestMoments(t *testing.T) {
	datadriven.Walk(t, "testdata/moments", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			happens, ok := moments[strings.TrimSpace(d.Input)]
			if !ok {
				d.Fatalf(t, "there is no moment %q", d.Input)
			}
			var b strings.Builder
			day, phases := bigDay, []Phase{Reading, Asking, Out, Noticed, Held, Back, Recording, Done}
			if d.Cmd == "upstream" { // its Recording has nothing to wait for
				day, phases = bigUpstreamDay, []Phase{Reading, Asking, Out, Noticed, Held, Back, Done}
			}
			for _, phase := range phases {
				s := day()
				s.until(t, func() bool { return s.run.Phase == phase })
				happens(s)
				began := s.now
				s.until(t, func() bool { return s.run.Phase.Final() })
				took := s.now.Sub(began)
				if late := min(took, s.clock().Sub(s.run.Ended)); late > finalWithin {
					t.Errorf("%s, %s: final %s after the later of the moment and the end of the outage", strings.TrimSpace(d.Input), phase, late)
				}
				s.until(t, func() bool { return s.run.Over() })
				r := s.run.Report()
				fmt.Fprintf(&b, "%-9s %s %s, followed %d stuck %d unknown %d, final after %s", phase, r.Outcome, r.Reason, r.Verdicts.Followed, r.Verdicts.Stuck, r.Verdicts.Unknown, took)
				for _, u := range r.Unheard {
					fmt.Fprintf(&b, ", unheard %s", u.Server)
				}
				usual := 6.0
				if r.Spec.OfUpstream() {
					usual = 2
				}
				if r.TimeToNoticeSeconds != nil && *r.TimeToNoticeSeconds != usual {
					fmt.Fprintf(&b, ", noticed after %.3g s", *r.TimeToNoticeSeconds)
				}
				for _, c := range r.Clients {
					if c.FailoverSeconds != nil && *c.FailoverSeconds != 5 {
						fmt.Fprintf(&b, ", %s failed over after %.3g s", c.Address, *c.FailoverSeconds)
					}
				}
				if left := s.left(); left != "nothing\n" {
					fmt.Fprintf(&b, ", LEFT: %s", strings.ReplaceAll(strings.TrimSpace(left), "\n", ", "))
				}
				b.WriteString("\n")
			}
			return b.String()
		})
	})
}

// bigDay is a run of which nothing is to be complained, but for what happens.
func bigDay() *sim {
	s := newSim()
	for _, name := range []string{"a", "b", "c"} {
		s.addServer(name)
	}
	s.clients = []*simClient{
		{addr: "10.0.0.1", on: []string{"a"}, follows: "b", after: 5 * time.Second, every: 1},
		{addr: "10.0.0.2", on: []string{"a"}, follows: "c", after: 5 * time.Second, every: 1},
	}
	for range 60 {
		s.pass()
	}
	s.run = New(s.spec, s.clock())
	s.step()
	return s
}

// bigUpstreamDay is the same of a server that loses an upstream.
func bigUpstreamDay() *sim {
	s := bigDay()
	for _, name := range []string{"a", "b", "c"} {
		v := s.server(name)
		v.features = append(v.features, protocol.FeatureUpstreams)
		for _, addr := range []string{"10.0.0.1:53", "10.0.0.2:53"} {
			v.upstreams = append(v.upstreams, &simUpstream{addr: addr, zone: "."})
		}
	}
	s.spec.Stage, s.spec.Upstream, s.spec.Mode, s.spec.Readiness = StageUpstream, "10.0.0.1", "", ""
	s.spec = s.spec.WithDefaults()
	s.pass()
	s.run = New(s.spec, s.clock())
	s.step()
	return s
}

func (s *sim) until(t *testing.T, there func() bool) {
	t.Helper()
	for range 3000 {
		if there() {
			return
		}
		s.pass()
		s.step()
	}
	t.Fatalf("after 3000 s the run is still %s: %+v", s.run.Phase, s.run.Timeline)
}

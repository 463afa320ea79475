package run

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// TestWhateverHappens drives runs through random faults at random moments and
// checks what must hold whatever happens: the run ends, no server is drilled
// for longer than was ordered, the run is final within five minutes of the outage,
// nothing is left on a server that can be reached, Step changes nothing that it was
// given, and a run that went through a file is the same run.
func TestWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSim()
		for _, name := range []string{"a", "b", "c"}[:rapid.IntRange(2, 3).Draw(t, "servers")] {
			s.addServer(name)
		}
		s.spec.Seconds = rapid.IntRange(15, 300).Draw(t, "seconds")
		s.clients = []*simClient{
			{addr: "10.0.0.1", on: []string{"a"}, follows: "b", after: 5 * time.Second, every: 1},
			{addr: "10.0.0.2", on: []string{"a"}, every: 1},
			{addr: "10.0.0.3", on: []string{"a", "b"}, every: 1},
		}
		for range 60 {
			s.pass()
		}
		s.start = s.now
		s.run = New(s.spec, s.clock())
		faults := rapid.IntRange(0, 4).Draw(t, "faults")
		at := map[int]bool{}
		for range faults {
			at[rapid.IntRange(0, 200).Draw(t, "at")] = true
		}
		first := map[string]time.Time{}
		quiet, final := s.now, time.Duration(-1) // since the last fault; from then until the run was final
		for i := 0; i < 3000 && !s.run.Over(); i++ {
			if at[i] {
				s.fault(t)
				quiet = s.now
			}
			s.pass()
			if i%20 == 0 {
				s.throughFile(t)
			}
			s.step()
			if s.run.Phase.Final() && final < 0 {
				final = s.now.Sub(quiet)
				if !s.run.Ended.IsZero() {
					final = min(final, s.clock().Sub(s.run.Ended))
				}
				if final > finalWithin {
					t.Fatalf("final only %s after the later of the last fault and the end of the outage: %+v", final, s.run.Timeline)
				}
			}
			for _, v := range s.servers {
				key := fmt.Sprintf("%s/%d", v.name, v.boot)
				if v.drilling() {
					if first[key].IsZero() {
						first[key] = s.now
					}
					if d := s.now.Sub(first[key]); d > s.spec.Duration() {
						t.Fatalf("%s is drilled for %s, ordered were %s", v.name, d, s.spec.Duration())
					}
				}
			}
		}
		if !s.run.Over() {
			t.Fatalf("after 3000 s the run is still %s: %+v", s.run.Phase, s.run.Timeline)
		}
		for _, v := range s.servers {
			if v.drilling() {
				t.Fatalf("%s is left drilled", v.name)
			}
			if v.heard && v.fail["unrecord"] == "" && v.rec != nil && !v.rec.Frozen {
				t.Fatalf("%s is left recording", v.name)
			}
		}
		r := s.run.Report()
		switch {
		case !slices.Contains([]Outcome{Passed, Failed, Stopped, Refusal}, r.Outcome):
			t.Fatalf("outcome %q", r.Outcome)
		case r.Outcome == Passed && (len(r.Findings) > 0 || r.Verdicts.Followed == 0 || r.Verdicts.Unknown > 0 || r.Verdicts.Stuck > r.Spec.Limits.Stuck):
			t.Fatalf("passed with %+v %+v", r.Verdicts, r.Findings)
		case r.Outcome == Failed && len(r.Findings) == 0:
			t.Fatal("failed without a finding")
		case r.Reason == "" || r.Message == "":
			t.Fatalf("%s without a reason or a message", r.Outcome)
		case r.Spec.ProbeToken != "":
			t.Fatal("the report shows the probe token")
		}
		for _, c := range r.Clients {
			if c.Lost != nil && *c.Lost > c.Drilled {
				t.Fatalf("%s lost %d of %d", c.Address, *c.Lost, c.Drilled)
			}
		}
	})
}

// throughFile checks that a run which went through a file is the same run, and
// that Step leaves the one alone that it was given; and goes on with the read one.
func (s *sim) throughFile(t *rapid.T) {
	before, err := json.Marshal(s.run)
	if err != nil {
		t.Fatal(err)
	}
	Step(s.run, Observation{Facts: Facts{Now: s.clock(), Enabled: true}, Results: s.results}, s.clock())
	if after, _ := json.Marshal(s.run); string(after) != string(before) {
		t.Fatalf("Step changed the run that it was given:\n%s", cmp.Diff(string(before), string(after)))
	}
	var read Run
	if err := json.Unmarshal(before, &read); err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(read); string(again) != string(before) {
		t.Fatalf("the run is another one after a file:\n%s", cmp.Diff(string(before), string(again)))
	}
	s.run = read
}

// fault is one bad moment.
func (s *sim) fault(t *rapid.T) {
	v := s.servers[rapid.IntRange(0, len(s.servers)-1).Draw(t, "server")]
	switch k := rapid.IntRange(0, 14).Draw(t, "fault"); k {
	case 0:
		v.restart(s.now)
	case 1:
		v.heard, v.since = !v.heard, s.now
	case 2:
		v.unprobed = !v.unprobed
	case 3, 4, 5, 6, 7:
		call := []string{"record", "order", "renew", "end", "part"}[k-3]
		v.fail[call] = rapid.SampledFrom([]string{"timeout", "lost", "", "BadRequest", "OtherBoot", "DrillRunning", "DrillEnded", "NotRecording", "OtherRecording"}).Draw(t, "answer")
	case 8:
		s.stop = &StopWish{By: "bob"}
	case 9:
		s.facts.Enabled = false
	case 10:
		s.facts.Incident = "an alert is firing"
	case 11:
		v.errs = 20
	case 12:
		v.offset = time.Duration(rapid.IntRange(-5, 5).Draw(t, "offset")) * time.Second
	case 13: // the controller is away, and its clock may be set meanwhile
		s.away(rapid.IntRange(1, 120).Draw(t, "away"), time.Duration(rapid.IntRange(-3, 3).Draw(t, "set"))*20*time.Minute)
	case 14:
		v.latency = 200
	}
}

// TestLost pairs drilled questions with answers elsewhere.
func TestLost(t *testing.T) {
	const notKnown = -1
	w := func(name string, offset, err int64, c protocol.RecordedClient) *witness {
		return &witness{server: name, peer: &Peer{OffsetMs: offset, ErrMs: err}, clients: map[string]protocol.RecordedClient{"x": c}}
	}
	drilled := func(hash uint64, at int64) protocol.Sample {
		return protocol.Sample{Hash: hash, Drilled: true, FirstMs: at, LastMs: at}
	}
	answered := func(hash uint64, at int64) protocol.Sample {
		return protocol.Sample{Hash: hash, FirstMs: at, LastMs: at}
	}
	const t0 = 1_000_000
	for _, c := range []struct {
		name    string
		here    protocol.RecordedClient
		there   protocol.RecordedClient
		offset  int64
		lost    int
		sampled bool
	}{
		{"answered elsewhere", protocol.RecordedClient{DrilledQuestions: 1, Samples: []protocol.Sample{drilled(8, t0)}},
			protocol.RecordedClient{Samples: []protocol.Sample{answered(8, t0+5000)}}, 0, 0, false},
		{"too late to be a retry", protocol.RecordedClient{DrilledQuestions: 1, Samples: []protocol.Sample{drilled(8, t0)}},
			protocol.RecordedClient{Samples: []protocol.Sample{answered(8, t0+6100)}}, 0, 1, false},
		{"another question", protocol.RecordedClient{DrilledQuestions: 1, Samples: []protocol.Sample{drilled(8, t0)}},
			protocol.RecordedClient{Samples: []protocol.Sample{answered(16, t0+1000)}}, 0, 1, false},
		{"answered before, when it was asked for another time", protocol.RecordedClient{DrilledQuestions: 1, Samples: []protocol.Sample{drilled(8, t0)}},
			protocol.RecordedClient{Samples: []protocol.Sample{answered(8, t0-1000)}}, 0, 1, false},
		{"clocks apart", protocol.RecordedClient{DrilledQuestions: 1, Samples: []protocol.Sample{drilled(8, t0)}},
			protocol.RecordedClient{Samples: []protocol.Sample{answered(8, t0+5000+60_000)}}, 60_000, 0, false},
		{"answered by the drilled server, which came back in time", protocol.RecordedClient{DrilledQuestions: 1, Samples: []protocol.Sample{drilled(8, t0), answered(8, t0+2000)}},
			protocol.RecordedClient{}, 0, 0, false},
		{"retried for long", protocol.RecordedClient{DrilledQuestions: 1, Samples: []protocol.Sample{{Hash: 8, Drilled: true, FirstMs: t0, LastMs: t0 + 10_000}}},
			protocol.RecordedClient{Samples: []protocol.Sample{answered(8, t0+15_000)}}, 0, 0, false},
		{"sampled: half of those kept were lost, of 10", protocol.RecordedClient{DrilledQuestions: 10, SampleBits: 3, Samples: []protocol.Sample{drilled(8, t0), drilled(16, t0)}},
			protocol.RecordedClient{Samples: []protocol.Sample{answered(8, t0+1000), answered(9, t0)}}, 0, 5, true},
		{"the other kept fewer", protocol.RecordedClient{DrilledQuestions: 2, Samples: []protocol.Sample{drilled(4, t0), drilled(8, t0)}},
			protocol.RecordedClient{SampleBits: 3, Samples: []protocol.Sample{answered(8, t0+1000)}}, 0, 0, true},
		{"nothing comparable was kept", protocol.RecordedClient{DrilledQuestions: 7, Samples: []protocol.Sample{drilled(4, t0)}},
			protocol.RecordedClient{SampleBits: 3}, 0, notKnown, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, sampled := lost(c.here, w("a", 0, 0, c.here), []*witness{w("b", c.offset, 0, c.there)}, "x")
			got := notKnown
			if n != nil {
				got = *n
			}
			if got != c.lost || sampled != c.sampled {
				t.Errorf("lost %d (sampled %v), want %d (%v)", got, sampled, c.lost, c.sampled)
			}
		})
	}
}

// The sum is known where each part is, or where what is not is little and for lack
// of room alone.
func TestLostInAll(t *testing.T) {
	n := func(n int) *int { return &n }
	all := ClientReport{Drilled: 95, Lost: n(19)}
	for name, c := range map[string]struct {
		clients []ClientReport
		want    *int
	}{
		"each is known":             {[]ClientReport{all, {Drilled: 5, Lost: n(5)}}, n(24)},
		"of a few nothing was kept": {[]ClientReport{all, {Drilled: 5, LostSampled: true}}, n(20)},
		"of many nothing was kept":  {[]ClientReport{all, {Drilled: 50, LostSampled: true}}, nil},
		"of all":                    {[]ClientReport{{Drilled: 5, LostSampled: true}}, nil},
		"one is not known":          {[]ClientReport{all, {Drilled: 5}}, nil},
		"nobody":                    {nil, n(0)},
	} {
		got := Run{Clients: c.clients}.lostInAll()
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

package demo

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/build/firebreak/demo/resolvers"
	"firebreakdns.io/firebreak/controller/run"
)

var (
	from  = time.Date(2026, 11, 30, 3, 15, 0, 0, time.UTC)
	until = from.Add(18 * time.Second)
	dead  = netip.MustParseAddrPort("127.1.2.1:53")
	other = netip.MustParseAddrPort("127.1.2.2:53")
)

func at(s float64) time.Time { return from.Add(time.Duration(s * float64(time.Second))) }

// lookup began at a second, asked servers at seconds, and ended at one; by is
// who answered, if anybody.
func lookup(began, ended float64, by netip.AddrPort, sent ...resolvers.Sent) resolvers.Result {
	r := resolvers.Result{Began: at(began), Ended: at(ended), Sent: sent, By: by}
	if by.IsValid() {
		r.Answer = r.Ended
	}
	return r
}

func to(server netip.AddrPort, s float64) resolvers.Sent {
	return resolvers.Sent{At: at(s), To: server}
}

func TestRecall(t *testing.T) {
	nobody := netip.AddrPort{}
	for name, x := range map[string]struct {
		log  []resolvers.Result
		want run.Verdict
		wait time.Duration
		lost int
	}{
		"followed after five seconds": {log: []resolvers.Result{
			lookup(-1, -0.9, dead, to(dead, -1)),
			lookup(1, 6, other, to(dead, 1), to(other, 6)),
		}, want: run.Followed, wait: 5 * time.Second},
		"an answer of the dead server at the edge is no outage": {log: []resolvers.Result{
			lookup(0.01, 0.02, dead, to(dead, 0.01)),
			lookup(1, 6, other, to(dead, 1), to(other, 6)),
		}, want: run.Followed, wait: 5 * time.Second},
		"an answer elsewhere long after the end proves nothing": {log: []resolvers.Result{
			lookup(1, 11, nobody, to(dead, 1), to(dead, 6)),
			lookup(12, 24, other, to(dead, 12), to(other, 24)),
		}, want: run.Stuck, lost: 1},
		"stuck": {log: []resolvers.Result{
			lookup(1, 11, nobody, to(dead, 1), to(dead, 6)),
			lookup(11.5, 21.5, nobody, to(dead, 11.5), to(dead, 16.5)),
		}, want: run.Stuck, lost: 2},
		"too little to tell":   {log: []resolvers.Result{lookup(14, 24, nobody, to(dead, 14), to(dead, 19))}, want: run.Quiet, lost: 1},
		"asleep":               {log: []resolvers.Result{lookup(-3, -2.9, dead, to(dead, -3))}, want: run.Quiet},
		"uses another anyway":  {log: []resolvers.Result{lookup(1, 1.1, other, to(other, 1)), lookup(2, 2.1, other, to(other, 2))}, want: run.Elsewhere},
		"never asked anything": {want: run.Elsewhere},
	} {
		f := recall(x.log, dead, from, until)
		if f.Verdict != x.want || f.Waited != x.wait || f.Lost != x.lost {
			t.Errorf("%s: %s after %v with %d lost", name, f.Verdict, f.Waited, f.Lost)
		}
		if f.words(func(netip.AddrPort) string { return "ns2" }) == "" {
			t.Errorf("%s: no words", name)
		}
	}
}

func TestCompare(t *testing.T) {
	seconds := func(s float64) *float64 { return &s }
	two := 2
	waited := felt{Verdict: run.Followed, Waited: 5 * time.Second}
	for name, x := range map[string]struct {
		want run.Verdict
		f    felt
		c    *run.ClientReport
		diff string
	}{
		"agree":              {run.Followed, waited, &run.ClientReport{Verdict: run.Followed, FailoverSeconds: seconds(5.1)}, ""},
		"agree without time": {run.Followed, waited, &run.ClientReport{Verdict: run.Followed}, ""},
		"another verdict":    {run.Followed, waited, &run.ClientReport{Verdict: run.Stuck}, `"stuck"`},
		"as expected, but the client saw something else": {run.Stuck, waited, &run.ClientReport{Verdict: run.Stuck}, "the client itself saw"},
		"another time":         {run.Followed, waited, &run.ClientReport{Verdict: run.Followed, FailoverSeconds: seconds(1)}, "1.0 s"},
		"lost what it did not": {run.Followed, waited, &run.ClientReport{Verdict: run.Followed, Lost: &two}, "lost none"},
		"a sample may be off":  {run.Followed, waited, &run.ClientReport{Verdict: run.Followed, Lost: &two, LostSampled: true}, ""},
		"not in the report":    {run.Followed, waited, nil, `"nothing"`},
	} {
		diff := compare(&player{want: x.want}, x.f, x.c)
		if (diff == "") != (x.diff == "") || !strings.Contains(diff, x.diff) {
			t.Errorf("%s: %q", name, diff)
		}
	}
}

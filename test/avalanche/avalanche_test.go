package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func TestMain(m *testing.M) {
	if code, is := role(); is { // the run starts itself, which here is the test
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// A short avalanche: what has to be seen is seen, clients that ask the Service
// suffer, and afterwards nothing is left.
func TestShortAvalanche(t *testing.T) {
	if testing.Short() {
		t.Skip("Builds the DNS server and takes ten seconds a way: not with -short")
	}
	if why := able(); why != "" {
		t.Skip(why)
	}
	dir := t.TempDir()
	docs := filepath.Join(dir, "page.md")
	if err := os.WriteFile(docs, []byte("<!-- avalanche: begin -->\n<!-- avalanche: end -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parseOptions([]string{
		"-warm", "1s", "-before", "2s", "-during", "3s", "-after", "2s", "-capacity", "200", "-pods", "30",
		"-timeout", "500ms", "-out", dir, "-docs", docs, "-ways", "service,ours",
	}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	r, err := run(o, &progress, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	if err := report(o, r, &out); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\n%s", progress.String(), out.String())
	if len(r.Ways) != 2 {
		t.Fatalf("%d ways, want the Service and ours", len(r.Ways))
	}
	for _, w := range r.Ways {
		for _, p := range w.Phases {
			if p.Lookups < 50 || p.P99 <= 0 || p.Asked <= 0 || p.Load <= 0 {
				t.Errorf("%s, %s: %+v, want all its figures", w.Way, p.Name, p)
			}
		}
		switch w.Way {
		case "service":
			// A quarter of what is asked goes to the dead one, and both attempts do.
			if w.During.Failed < 0.05 || w.Hurt < 10 || w.During.P99 < 950 {
				t.Errorf("Straight to the Service %+v, %d clients hurt: the failure does not reach the clients", w.During, w.Hurt)
			}
			if w.Before.Failed > 0.05 || w.Before.Load < 0.3 || w.Before.Load > 0.9 {
				t.Errorf("Straight to the Service, before: %+v, want a healthy system at about 60 %%", w.Before)
			}
		default:
			// Caches ask less; how much better they are is for the full run to say.
			if w.Before.Asked > 0.8 {
				t.Errorf("%s: %.2f queries per question reach the servers: nothing is cached", w.Way, w.Before.Asked)
			}
		}
	}
	var again result
	if b, err := os.ReadFile(filepath.Join(dir, "avalanche.json")); err != nil || json.Unmarshal(b, &again) != nil || len(again.Ways) != len(r.Ways) || len(again.Ways[0].Seconds) != 7 {
		t.Errorf("The JSON is %s, %v", b, err)
	}
	if page, err := os.ReadFile(docs); err != nil || !strings.Contains(string(page), "| straight to the Service | before |") {
		t.Errorf("The page is %s, %v", page, err)
	}
	if left, err := os.ReadDir("/run/netns"); err == nil {
		for _, e := range left {
			if strings.HasPrefix(e.Name(), prefix) {
				t.Errorf("Namespace %s is left", e.Name())
			}
		}
	}
}

func TestOptions(t *testing.T) {
	for args, want := range map[string]string{
		"-ways x":       `"x" is no way`,
		"-before 1s":    "-before",
		"-capacity 1":   "-capacity",
		"-use 2":        "-use",
		"-pods 0":       "-pods",
		"-timeout 1ms":  "-timeout",
		"-again -1":     "-again",
		"-queue 0":      "-queue",
		"now":           "only options",
		"-warm 2000000": "invalid value",
	} {
		var said bytes.Buffer
		if _, err := parseOptions(strings.Fields(args), &said); err == nil || !strings.Contains(said.String(), want) {
			t.Errorf("Options %q = %v, said %q, want %q", args, err, said.String(), want)
		}
	}
	if o, err := parseOptions(nil, os.Stderr); err != nil || o.During != 50*time.Second {
		t.Errorf("Without options = %+v, %v, want 50 s as Kubernetes takes", o, err)
	}
}

func TestPlanIsTheSameAgain(t *testing.T) {
	a, b := newPlan(7, 100, 10), newPlan(7, 100, 10)
	world, queries, span := 0, 0, time.Duration(0)
	const n = 20_000
	for range n {
		ga, gb := a.gap(), b.gap()
		podA, nameA, pauseA := a.next()
		podB, nameB, pauseB := b.next()
		if ga != gb || podA != podB || nameA != nameB || pauseA != pauseB {
			t.Fatal("Two plans of one seed differ")
		}
		span += ga
		queries += 2
		if strings.Contains(nameA, ".") {
			world++
			queries += 2 * len(search)
		}
	}
	if rate := n / span.Seconds(); rate < 95 || rate > 105 {
		t.Errorf("Rate = %.1f, want 100", rate)
	}
	if got := float64(queries) / n; got < queriesPerLookup*0.97 || got > queriesPerLookup*1.03 {
		t.Errorf("Queries per lookup = %.2f, want %.2f", got, float64(queriesPerLookup))
	}
}

func TestZone(t *testing.T) {
	for _, tc := range []struct {
		name    string
		qtype   uint16
		rcode   int
		answers int
	}{
		{"service-3.app.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, 1},
		{"SERVICE-3.app.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, 1},
		{"service-3.app.svc.cluster.local.", dns.TypeAAAA, dns.RcodeSuccess, 0},
		{"site-1.example.org.app.svc.cluster.local.", dns.TypeA, dns.RcodeNameError, 0},
		{"site-1.example.org.", dns.TypeA, dns.RcodeSuccess, 1},
		{"cluster.local.", dns.TypeSOA, dns.RcodeSuccess, 1},
	} {
		q, err := new(dns.Msg).SetQuestion(tc.name, tc.qtype).Pack()
		if err != nil {
			t.Fatal(err)
		}
		r := new(dns.Msg)
		if err := r.Unpack(zoneAnswer(q, make([]byte, 0, 512))); err != nil {
			t.Fatal(err)
		}
		if r.Rcode != tc.rcode || len(r.Answer) != tc.answers || len(r.Answer)+len(r.Ns) != 1 {
			t.Errorf("%s %s = %v", tc.name, dns.TypeToString[tc.qtype], r)
		}
	}
	if got := zoneAnswer([]byte("nonsense"), nil); len(got) != 0 {
		t.Errorf("Answer to nonsense = %q", got)
	}
}

func TestRecovered(t *testing.T) {
	all := make([]second, 10)
	for i := range all {
		all[i] = second{At: i, P99: 2}
	}
	if got := recovered(all, 3, 10); got != 0 {
		t.Errorf("Recovered of a calm run = %v, want 0", got)
	}
	all[1].Failed, all[4].Failed, all[6].P99 = 1, 1, 11
	if got := recovered(all, 3, 10); got != 4 {
		t.Errorf("Recovered = %v, want 4: second 6 is the last bad one", got)
	}
	all[9].Failed = 1
	if got := recovered(all, 3, 10); got != -1 {
		t.Errorf("Recovered = %v, want -1: the last second is bad", got)
	}
}

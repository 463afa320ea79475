package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/bench/program"

	"github.com/miekg/dns"
)

func TestMain(m *testing.M) {
	if code, is := role(); is { // the measurement starts itself, which here is the test
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// A real run, as short as it can be: its figures are no matter, but they are
// there, and the floors lie below the server.
func TestShortRun(t *testing.T) {
	if testing.Short() {
		t.Skip("Builds the DNS server and measures: not with -short")
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("No C compiler: the floor and the load client are in C")
	}
	dir := t.TempDir()
	docs := filepath.Join(dir, "page.md")
	if err := os.WriteFile(docs, []byte("before\n<!-- bench: begin -->\nearlier figures\n<!-- bench: end -->\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parseOptions([]string{
		"-rounds", "1", "-length", "200ms", "-entries", "5000", "-servers", "floor-c,floor-go,ours,coredns",
		"-works", "peak,100k-2,miss,tls,memory", "-out", dir, "-docs", docs,
	}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	begin := time.Now()
	if _, err := run(o, &out, &progress, nil); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	t.Logf("%s\n%s\n%s", time.Since(begin), progress.String(), out.String())
	b, err := os.ReadFile(filepath.Join(dir, "bench.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Failures) > 0 {
		t.Errorf("Without a figure: %q", r.Failures)
	}
	want := map[string][]string{
		"floor-c": {"peak", "100k-2"}, "floor-go": {"peak", "100k-2"},
		"coredns": {"peak", "100k-2", "miss", "tls"}, "ours": {"peak", "100k-2", "miss", "tls"},
	}
	for server, works := range want {
		for _, work := range works {
			f, ok := r.figure(server, work)
			if !ok || f.CPU <= 0 || f.Rate <= 0 || f.RSS <= 0 {
				t.Errorf("Figure of %s under %s = %+v, %v", server, work, f, ok)
			}
		}
	}
	for _, floor := range []string{cFloor, goFloor} {
		low, _ := r.figure(floor, "peak")
		high, _ := r.figure("coredns", "peak")
		if low.CPU >= high.CPU {
			t.Errorf("%s costs %.1f us an answer and a whole server %.1f: one of them is not measured", floor, low.CPU, high.CPU)
		}
	}
	// Of 5,000 entries the heap says little beside what else comes and goes on it.
	if len(r.Memory) != 2 {
		t.Errorf("Memory = %+v, want both caches'", r.Memory)
	}
	for _, m := range r.Memory {
		if m.Held < 4500 || m.Live == 0 || m.Live > 20_000 {
			t.Errorf("Memory of %s = %+v", m.Server, m)
		}
	}
	page, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(page); !strings.HasPrefix(s, "before\n<!--") || !strings.HasSuffix(s, "-->\nafter\n") || strings.Contains(s, "earlier figures") || !strings.Contains(s, "CoreDNS cache + forward") {
		t.Errorf("The page is\n%s", s)
	}
	if svg, err := os.ReadFile(filepath.Join(dir, pictureName)); err != nil || !strings.Contains(string(svg), "floor: echo in C") {
		t.Errorf("The picture is %.200s, %v", svg, err)
	}
}

func TestOptions(t *testing.T) {
	for args, want := range map[string]string{
		"-servers x":        `"x" is no server`,
		"-works 5k,y":       `"y" is no work`,
		"-rounds 0":         "-rounds",
		"-length 1h":        "-length",
		"-entries 1":        "-entries",
		"now":               "only options",
		"-coredns ./none":   "no such file",
		"-no-such-option 1": "not defined",
	} {
		var said bytes.Buffer
		if _, err := parseOptions(strings.Fields(args), &said); err == nil || !strings.Contains(said.String(), want) {
			t.Errorf("Options %q = %v, said %q, want %q", args, err, said.String(), want)
		}
	}
	o, err := parseOptions([]string{"-servers", "coredns,floor-c"}, os.Stderr)
	if err != nil || strings.Join(o.servers, " ") != "floor-c coredns" || len(o.works) != len(works)+2 {
		t.Errorf("Options = %+v, %v, want the servers in the table's order and all works", o, err)
	}
	if o, err = parseOptions(nil, os.Stderr); err != nil || len(o.servers) != len(servers) {
		t.Errorf("Servers if none is named = %q, %v", o.servers, err)
	}
}

func TestFiguresAreOfTheirRound(t *testing.T) {
	runs := []measured{
		{Round: 1, Server: "ours", Work: "peak", CPU: 3}, {Round: 1, Server: cFloor, Work: "peak", CPU: 2},
		{Round: 2, Server: "ours", Work: "peak", CPU: 30}, {Round: 2, Server: cFloor, Work: "peak", CPU: 20},
		{Round: 3, Server: "ours", Work: "peak", CPU: 4}, // the floor had no figure here
	}
	if got := ratio(runs, "ours", "peak", cFloor, "peak"); got != 1.5 {
		t.Errorf("Ratio = %v, want 1.5: each round's own", got)
	}
	if got := ratio(runs, "ours", "peak", "bind", "peak"); !math.IsNaN(got) {
		t.Errorf("Ratio to what was not measured = %v", got)
	}
	f := figures(runs)
	if len(f) != 2 || f[1].CPU != 4 || f[1].ToC != 1.5 || f[1].ToGo != 0 {
		t.Errorf("Figures = %+v", f)
	}
}

func TestClaims(t *testing.T) {
	r := &result{Runs: []measured{
		{Round: 1, Server: "ours", Work: "peak", CPU: 3}, {Round: 1, Server: cFloor, Work: "peak", CPU: 2},
		{Round: 1, Server: goFloor, Work: "peak", CPU: 2.9}, {Round: 1, Server: "bind", Work: "peak", CPU: 5},
		{Round: 1, Server: "unbound", Work: "peak", CPU: 4}, {Round: 1, Server: "dnsdist", Work: "peak", CPU: 1},
	}, Memory: []memory{{Server: "ours", Live: 200}, {Server: "coredns", Live: 1000}}, Cold: &cold{Seconds: 0.4, Answered: 0.98}}
	want := map[string]verdict{
		"CPU per cached answer at the peak, to the Go floor": holds,
		"CPU per cached answer at the peak, to the C floor":  broken,
		"best of Debian's":           broken, // 3/4 of Unbound; dnsdist is no resolver
		"NodeLocal's Corefile":       unmeasured,
		"memory per cached entry":    holds,
		"seconds from exec":          holds,
		"of the first second's":      broken,
		"CPU per answer over TCP":    unmeasured,
		"two workers at 100,000":     unmeasured,
		"with clients and drill, to": unmeasured,
	}
	found := judge(r)
	for part, verdict := range want {
		ok := false
		for _, c := range found {
			if strings.Contains(c.Text, part) {
				ok = c.Verdict == verdict
				break
			}
		}
		if !ok {
			t.Errorf("Claim %q is not %q in %v", part, verdict, found)
		}
	}
}

func TestJudge(t *testing.T) {
	cached, miss := workNamed("peak"), workNamed("miss")
	second := program.Usage{Total: time.Second, User: 250 * time.Millisecond, System: 750 * time.Millisecond}
	m := measured{load: load{Sent: 100_000, Answered: 90_000, Late: 10_000, Seconds: 2}}
	if err := m.judge(cached, second, 500); err != nil || m.CPU != 10 || m.User != 2.5 || m.System != 7.5 || m.Rate != 45_000 || m.Busy != 0.5 {
		t.Errorf("Judged = %+v, %v", m, err)
	}
	if err := m.judge(cached, second, 50_000); err == nil {
		t.Error("Half of the answers came from the upstream, and it is a figure of cached ones")
	}
	if err := m.judge(miss, second, 50_000); err == nil {
		t.Error("Half of the answers came from the cache, and it is a figure of misses")
	}
	wrong := measured{load: load{Sent: 100, Answered: 90, Bad: 10, Seconds: 1}}
	if err := wrong.judge(cached, second, 0); err == nil {
		t.Error("A tenth of the answers is wrong, and it is a figure")
	}
	none := measured{load: load{Sent: 100, Lost: 100, Seconds: 1}}
	if err := none.judge(cached, second, 0); err == nil {
		t.Error("There is no answer, and it is a figure")
	}
}

func TestParseDnsperf(t *testing.T) {
	const out = `Statistics:

  Queries sent:         301221
  Queries completed:    301200 (99.99%)
  Queries lost:         21 (0.01%)

  Response codes:       NOERROR 301100 (99.97%), SERVFAIL 100 (0.03%)
  Average packet size:  request 40, response 56
  Run time (s):         3.000812
  Queries per second:   100372.832393
`
	l, err := parseDnsperf(out)
	if err != nil || l.Sent != 301221 || l.Answered != 301100 || l.Bad != 100 || l.Lost != 21 || l.Seconds != 3.000812 {
		t.Errorf("Parsed = %+v, %v", l, err)
	}
	if _, err := parseDnsperf("Error: sending query"); err == nil {
		t.Error("Nothing was parsed without an error")
	}
}

func TestAuthority(t *testing.T) {
	ask := func(m *dns.Msg) *dns.Msg {
		t.Helper()
		q, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		r := new(dns.Msg)
		if err := r.Unpack(authorityAnswer(q, nil)); err != nil {
			t.Fatal(err)
		}
		if r.Id != m.Id || !r.Response || r.Question[0] != m.Question[0] {
			t.Errorf("Answer to %v = %v", m, r)
		}
		return r
	}
	before := asked.Load()
	if r := ask(new(dns.Msg).SetQuestion("a.example.", dns.TypeA)); len(r.Answer) != 1 || r.IsEdns0() != nil {
		t.Errorf("A = %v", r)
	}
	if r := ask(new(dns.Msg).SetQuestion("a.example.", dns.TypeAAAA).SetEdns0(1232, true)); len(r.Answer) != 0 || len(r.Ns) != 1 || r.IsEdns0() == nil {
		t.Errorf("AAAA = %v", r)
	}
	r := ask(new(dns.Msg).SetQuestion(countName, dns.TypeTXT))
	if len(r.Answer) != 1 || asked.Load() != before+2 {
		t.Errorf("Count = %v after %d questions", r, asked.Load()-before)
	}
	for _, q := range []string{"", "short", strings.Repeat("\xff", 40), "\x00\x01\x80\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01"} {
		if got := authorityAnswer([]byte(q), nil); len(got) != 0 {
			t.Errorf("Answer to %q = %q, want none", q, got)
		}
	}
}

func TestOverTLS(t *testing.T) {
	got := overTLS("a {\n    forward . x {\n        y\n    }\n}\n. {\n}\n", 853, "c", "k")
	want := "tls://a:853 {\n    tls c k\n    forward . x {\n        y\n    }\n}\ntls://.:853 {\n    tls c k\n}\n"
	if got != want {
		t.Errorf("Over TLS =\n%s\nwant\n%s", got, want)
	}
}

package drill_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/drill"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/caddy"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func running(t *testing.T) string {
	t.Helper()
	if s := drill.Current().State(); s != nil && s.Ended == nil {
		return s.ID
	}
	return ""
}

// Reloads under load: the drill goes on, no query of its target is answered, and
// no query of anybody else is lost.
func TestReloadKeepsTheDrill(t *testing.T) {
	s := start(t, drilling)
	target, other := s.dial(t, "udp", victim), s.dial(t, "udp", bystand)
	if _, err := ask(target, question(), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	id := fresh("reloaded")
	startDrill(t, order(id, protocol.ModeDrop, victim+"/32"))
	table := clients.Current()

	var wg sync.WaitGroup
	var asked atomic.Uint64
	stop := make(chan struct{})
	done := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	wg.Go(func() {
		for n := 0; !done(); n++ {
			m := question()
			m.Question[0].Name = fmt.Sprintf("n%d.example.org.", n)
			if _, err := ask(other, m, 5*time.Second); err != nil {
				t.Errorf("query %d of the other: %v", n, err)
				return
			}
			asked.Add(1)
		}
	})
	wg.Go(func() {
		for !done() {
			if r, err := ask(target, question(), 20*time.Millisecond); !errors.Is(err, errTimeout) {
				t.Errorf("the target: %v, %v; want silence", r, err)
				return
			}
		}
	})
	for range 3 {
		before := asked.Load()
		waitFor(t, "some load", func() bool { return asked.Load() > before+50 })
		if err := s.reload(drilling); err != nil {
			t.Fatal(err)
		}
		if running(t) != id || clients.Current() != table {
			t.Errorf("after a reload: drill %q, the same table %v", running(t), clients.Current() == table)
		}
	}
	if err := s.reload(drilling + "\nbroken"); err == nil {
		t.Error("a broken Corefile was loaded")
	}
	if running(t) != id {
		t.Errorf("after a failed reload: drill %q", running(t))
	}
	before := asked.Load()
	waitFor(t, "some load", func() bool { return asked.Load() > before+50 })
	close(stop)
	wg.Wait()
	if got := recorded(t, id, bystand); got.Answers != asked.Load() {
		t.Errorf("recorded %d answers of the other across reloads, want %d", got.Answers, asked.Load())
	}
	if got := recorded(t, id, victim); got.Drilled == 0 || got.Answers != 0 || got.Drilled != got.Queries {
		t.Errorf("recorded of the target: %+v", got)
	}
}

// What is held stays silent for longer than CoreDNS's write timeout (5 s), and a
// client whose deadline the server knows hears nothing at its end either.
func TestHeldQueriesOutlastTheWriteTimeout(t *testing.T) {
	s := start(t, drilling)
	startDrill(t, order(fresh("long"), protocol.ModeDrop, victim+"/32"))
	var wg sync.WaitGroup
	for _, transport := range []string{"https", "https3", "grpc", "https over HTTP/1.1"} {
		a := s.dial(t, transport, victim)
		wg.Go(func() {
			began := time.Now()
			r, err := ask(a, question(), 7*time.Second)
			if !errors.Is(err, errTimeout) {
				t.Errorf("%s: got %v, %v after %s; want silence", transport, r, err, time.Since(began))
			}
		})
	}
	wg.Wait()
}

// Clients whose deadline comes with the query are never sent CoreDNS's echo of
// it, however close the server's timer and theirs fire: many at once, so that some
// fire late.
func TestNoEchoAtTheDeadline(t *testing.T) {
	s := start(t, drilling)
	startDrill(t, order(fresh("echo"), protocol.ModeDrop, victim+"/32"))
	a := s.dial(t, "grpc", victim)
	var wg sync.WaitGroup
	for range 2000 {
		wg.Go(func() {
			if r, err := ask(a, question(), patience); !errors.Is(err, errTimeout) {
				t.Errorf("got %v, %v; want silence", r, err)
			}
		})
	}
	wg.Wait()
}

// Held queries do not keep a Corefile from being replaced, whether or not the
// next one has the plugin; and without it the drill ends.
func TestReloadDoesNotWaitForHeldQueries(t *testing.T) {
	for _, tc := range []struct {
		name, next string
		end        protocol.DrillEnd
	}{{"with drill", drilling, ""}, {"without drill", "clients", protocol.EndRemoved}} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, drilling)
			id := fresh(strings.ReplaceAll(tc.name, " ", "-"))
			startDrill(t, order(id, protocol.ModeDrop, victim+"/32"))
			var wg sync.WaitGroup
			for _, transport := range []string{"https", "https3", "grpc"} {
				a := s.dial(t, transport, victim)
				wg.Go(func() {
					r, err := ask(a, question(), 20*time.Second)
					if err == nil && r.Rcode != dns.RcodeRefused {
						t.Errorf("%s: held, then answered %v; want REFUSED, or the connection closed", transport, r)
					}
					// CoreDNS closes its HTTP/3 socket at once: what was written and not yet
					// sent is gone, and the client's connection idles to its end.
					if errors.Is(err, errTimeout) && transport != "https3" {
						t.Errorf("%s: still held after the reload", transport)
					}
				})
			}
			waitFor(t, "three to be held", func() bool { return drill.Current().Held() == 3 })
			began := time.Now()
			if err := s.reload(tc.next); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the reload took %s", took)
			}
			waitFor(t, "nobody to be held", func() bool { return drill.Current().Held() == 0 })
			wg.Wait()
			st := drill.Current().State()
			if st.ID != id || st.End != tc.end {
				t.Errorf("state is %+v, want end %q", st, tc.end)
			}
		})
	}
}

// A process that goes down releases what it holds and ends the drill.
func TestShutdownReleases(t *testing.T) {
	s := start(t, drilling)
	startDrill(t, order(fresh("down"), protocol.ModeDrop, victim+"/32"))
	a := s.dial(t, "grpc", victim)
	got := make(chan error, 1)
	go func() {
		_, err := ask(a, question(), 20*time.Second)
		got <- err
	}()
	waitFor(t, "the query to be held", func() bool { return drill.Current().Held() == 1 })
	s.inst.ShutdownCallbacks()
	if err := <-got; err != nil {
		t.Errorf("released: %v, want an answer", err)
	}
	if st := drill.Current().State(); st.End != protocol.EndRemoved {
		t.Errorf("state is %+v", st)
	}
}

// The controller's own probes are never drilled, and nobody behind sees their
// token.
func TestProbes(t *testing.T) {
	s := start(t, drilling)
	startDrill(t, order(fresh("probed"), protocol.ModeRefused, victim+"/32"))
	a := s.dial(t, "udp", victim)
	for _, tc := range []struct {
		name  string
		token string
		want  int
	}{
		{"the token", token, dns.RcodeSuccess},
		{"another token", "ff" + token[2:], dns.RcodeRefused},
		{"half of it", token[:16], dns.RcodeRefused},
		{"nothing", "", dns.RcodeRefused},
	} {
		m := question()
		m.SetEdns0(1232, false)
		data, err := hex.DecodeString(tc.token)
		if err != nil {
			t.Fatal(err)
		}
		m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_LOCAL{Code: protocol.ProbeOption, Data: data})
		r, err := ask(a, m, 5*time.Second)
		if err != nil || r.Rcode != tc.want {
			t.Fatalf("%s: %v, %v; want %s", tc.name, r, err, dns.RcodeToString[tc.want])
		}
		for _, o := range r.IsEdns0().Option {
			if o.Option() == protocol.ProbeOption {
				t.Errorf("%s: it is in the answer", tc.name)
			}
		}
	}
}

// Drilled are neither the node itself nor the addresses that the server listens
// on, but the rest of 127.0.0.0/8 is.
func TestEveryoneButOurselves(t *testing.T) {
	s := start(t, drilling)
	o := order(fresh("everyone"), protocol.ModeRefused)
	o.Everyone, o.Exclude, o.Never = true, []string{"127.0.0.4/32"}, []string{"127.0.0.5/32"}
	startDrill(t, o)
	for from, want := range map[string]int{
		"127.0.0.1": dns.RcodeSuccess, "127.0.0.4": dns.RcodeSuccess, "127.0.0.5": dns.RcodeSuccess,
		"127.0.0.2": dns.RcodeRefused, "127.1.1.1": dns.RcodeRefused,
	} {
		if r, err := ask(s.dial(t, "udp", from), question(), 5*time.Second); err != nil || r.Rcode != want {
			t.Errorf("%s: %v, %v; want %s", from, r, err, dns.RcodeToString[want])
		}
	}
}

func TestReadiness(t *testing.T) {
	s := start(t, drilling)
	status := func() int {
		t.Helper()
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + s.ready + "/ready")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	check := func(when string, want int) {
		t.Helper()
		if got := status(); got != want {
			t.Errorf("%s: ready says %d, want %d", when, got, want)
		}
	}
	check("before", 200)
	id := fresh("not-ready")
	startDrill(t, order(id, protocol.ModeDrop, victim+"/32"))
	check("with readiness fail", 503)
	_, _ = drill.Current().Delete(id)
	check("after", 200)
	clients.Current().Forget(id)
	o := order(fresh("ready"), protocol.ModeDrop, victim+"/32")
	o.Readiness = protocol.ReadinessPass
	startDrill(t, o)
	check("with readiness pass", 200)
}

func TestMetrics(t *testing.T) {
	s := start(t, drilling)
	text := metrics(t)
	addr := "dns://" + s.ports["dns"]
	for _, want := range []string{
		"coredns_drill_active 0",
		"coredns_drill_held 0",
		`coredns_drill_drilled_total{mode="drop",server="` + addr + `",transport="udp"} 0`,
		`coredns_drill_drilled_total{mode="refused",server="` + addr + `",transport="tcp"} 0`,
		`coredns_drill_drilled_total{mode="drop",server="quic://` + s.ports["quic"] + `",transport="quic"} 0`,
		`coredns_drill_overflow_total{server="` + addr + `"} 0`,
		`coredns_drill_probes_total{server="` + addr + `"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("before: no metric %s in\n%s", want, text)
		}
	}
	a := s.dial(t, "udp", victim)
	requests := func() string { return metric(metrics(t), "coredns_dns_requests_total", addr) }
	if _, err := ask(a, question(), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	before := requests()
	startDrill(t, order(fresh("metered"), protocol.ModeRefused, victim+"/32"))
	if _, err := ask(a, question(), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	text = metrics(t)
	for _, want := range []string{
		"coredns_drill_active 1",
		`coredns_drill_drilled_total{mode="refused",server="` + addr + `",transport="udp"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("during: no metric %s in\n%s", want, text)
		}
	}
	if before == "" || requests() != before {
		t.Errorf("a drilled query counts as a request of the prometheus plugin: %s, was %s", requests(), before)
	}
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "coredns_drill_") || strings.HasPrefix(p.Metric, "coredns_clients_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// metric is the line of a metric of one server.
func metric(text, name, server string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name) && strings.Contains(line, `server="`+server+`"`) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func metrics(t *testing.T) string {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			set := ""
			if len(labels) > 0 {
				set = "{" + strings.Join(labels, ",") + "}"
			}
			fmt.Fprintf(&b, "%s%s %v\n", f.GetName(), set, m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
	return b.String()
}

func TestSetup(t *testing.T) {
	for _, tc := range []struct{ name, corefile, wrong string }{
		{"with clients", ".:0 {\nclients\ndrill\n}", ""},
		{"without clients", ".:0 {\ndrill\n}", "drill needs clients in the same server block, which knows whom it drills: add clients to it"},
		{"clients in another block", "a.:0 {\nclients\n}\nb.:0 {\ndrill\n}", "drill needs clients in the same server block"},
		{"an argument", ".:0 {\nclients\ndrill on\n}", `"on": drill takes no arguments`},
		{"an option", ".:0 {\nclients\ndrill {\nmode drop\n}\n}", `"mode": drill has no options: what a drill does comes with its order`},
		{"twice", ".:0 {\nclients\ndrill\ndrill\n}", "this plugin can only be used once per Server Block"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := caddy.ValidateAndExecuteDirectives(input(tc.corefile), nil, true)
			switch {
			case tc.wrong == "" && err != nil:
				t.Errorf("does not start: %v", err)
			case tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)):
				t.Errorf("got %v\nwant %s", err, tc.wrong)
			}
		})
	}
}

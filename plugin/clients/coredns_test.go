package clients_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/acl"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/metadata"
	_ "github.com/coredns/coredns/plugin/root"
	_ "github.com/coredns/coredns/plugin/whoami"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

var directives = sync.OnceFunc(func() {
	caddy.Quiet, dnsserver.Quiet = true, true
	if err := dnsserver.SetDirectives([]string{"root", "bind", "metadata", "clients", "acl", "log", "whoami", "broken"}); err != nil {
		panic(err)
	}
	caddy.RegisterPlugin("broken", caddy.Plugin{ServerType: "dns", Action: func(c *caddy.Controller) error {
		for c.Next() {
			c.OnStartup(func() error { return errors.New("broken on purpose") })
		}
		return nil
	}})
})

type server struct {
	t    *testing.T
	inst *caddy.Instance
	addr string
}

func input(corefile string) caddy.Input {
	return caddy.CaddyfileInput{Filepath: "Corefile", Contents: []byte(corefile), ServerTypeName: "dns"}
}

func block(addr, options string) string {
	_, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf(".:%s {\nbind 127.0.0.1\nmetadata\n%s\nacl example.net {\nblock net 127.0.0.4\n}\nwhoami\n}\n", port, options)
}

func run(t *testing.T, options string) *server {
	t.Helper()
	directives()
	s := &server{t: t}
	var err error
	for range 5 {
		s.addr = freePort(t)
		if s.inst, err = caddy.Start(input(block(s.addr, options))); err == nil {
			t.Cleanup(s.stop)
			s.serving()
			return s
		}
	}
	t.Fatal(err)
	return nil
}

// serving waits until both listeners serve: CoreDNS cannot stop one that does
// not yet. It asks in a class that no plugin is asked.
func (s *server) serving() {
	s.t.Helper()
	for _, network := range []string{"udp", "tcp"} {
		m := new(dns.Msg)
		m.SetQuestion("example.org.", dns.TypeA)
		m.Question[0].Qclass = dns.ClassCHAOS
		c := &dns.Client{Net: network, Timeout: 10 * time.Second}
		if _, _, err := c.Exchange(m, s.addr); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *server) stop() {
	if s.inst == nil {
		return
	}
	s.inst.ShutdownCallbacks()
	if err := s.inst.Stop(); err != nil {
		s.t.Error(err)
	}
	s.inst.Wait()
	s.inst = nil
}

func (s *server) reload(options string) error {
	inst, err := s.inst.Restart(input(block(s.addr, options)))
	s.inst = inst
	s.serving()
	return err
}

func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		p, err := net.ListenPacket("udp", addr)
		l.Close()
		if err == nil {
			p.Close()
			return addr
		}
	}
	t.Fatal("no port is free for both UDP and TCP")
	return ""
}

func (s *server) ask(from, name string) *dns.Msg {
	s.t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(name, dns.TypeA)
	c := &dns.Client{Timeout: 5 * time.Second, Dialer: &net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}}
	r, _, err := c.Exchange(m, s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func seen(t *testing.T) map[string]protocol.SeenClient {
	t.Helper()
	out := make(map[string]protocol.SeenClient)
	page, _, _ := clients.Current().Seen(clients.Normal(clients.Query{}.Addr), protocol.MaxSeenPage, clients.Now())
	for _, c := range page {
		out[c.Address] = c
	}
	return out
}

func TestCounted(t *testing.T) {
	s := run(t, "clients {\ninfrastructure 127.0.0.9\n}")
	before := clients.Current().Stats(clients.Now())
	for i := range 3 {
		s.ask("127.0.0.2", fmt.Sprintf("n%d.example.org.", i))
		s.ask("127.0.0.4", fmt.Sprintf("n%d.example.net.", i)) // REFUSED by acl
		s.ask("127.0.0.9", "example.org.")
		s.ask("127.0.0.1", fmt.Sprintf("n%d.example.org.", i))
	}
	got := seen(t)
	for addr, errors := range map[string]uint64{"127.0.0.2": 0, "127.0.0.4": 3, "127.0.0.1": 0} {
		if c := got[addr]; c.Queries != 3 || c.Answers != 3 || c.Errors != errors || c.Retries != 0 {
			t.Errorf("%s: %+v, want 3 queries, 3 answers, %d errors", addr, c, errors)
		}
	}
	if len(got) != 3 {
		t.Errorf("%d clients, want 3: infrastructure is none", len(got))
	}
	after := clients.Current().Stats(clients.Now())
	if q, a, r := after.Queries-before.Queries, after.Answers-before.Answers, after.Refused-before.Refused; q != 9 || a != 9 || r != 3 {
		t.Errorf("counted %d queries, %d answers, %d refused; want 9, 9, 3", q, a, r)
	}
}

// A reload keeps the table and the recording; a changed max migrates it.
func TestReloadKeepsTheTable(t *testing.T) {
	s := run(t, "clients {\nmax 128\n}")
	p := clients.Current()
	for range 2 {
		s.ask("127.0.0.2", "example.org.")
	}
	if _, problem := p.Record("d", protocol.RecordingOrder{Fleet: "f", Seconds: 60}, clients.Now()); problem != nil {
		t.Fatal(problem)
	}
	if err := s.reload("clients {\nmax 256\n}"); err != nil {
		t.Fatal(err)
	}
	if clients.Current() != p || p.Max() != 256 {
		t.Errorf("max is %d after the reload, the same table %v", p.Max(), clients.Current() == p)
	}
	s.ask("127.0.0.2", "example.org.")
	if got := seen(t)["127.0.0.2"]; got.Queries != 3 {
		t.Errorf("after the reload: %+v, want 3 queries", got)
	}
	if r := p.Recording(clients.Now()); r == nil || r.Frozen {
		t.Errorf("the recording is %+v", r)
	}
	if err := s.reload("clients {\nmax 64\n}"); err != nil {
		t.Fatal(err)
	}
	if p.Max() != 64 || seen(t)["127.0.0.2"].Queries != 3 {
		t.Errorf("max is %d, the client %+v", p.Max(), seen(t)["127.0.0.2"])
	}
}

// A reload that fails changes nothing, and leaves nothing behind.
func TestFailedReload(t *testing.T) {
	s := run(t, "clients {\nmax 128\n}")
	p := clients.Current()
	for range 2 {
		s.ask("127.0.0.2", "example.org.")
	}
	for _, options := range []string{
		"clients {\nmax 256\n}\nbroken",
		"clients {\nmax 64\n}\nbroken",
		"clients {\nmax nonsense\n}",
	} {
		if err := s.reload(options); err == nil {
			t.Fatal("it did not fail")
		}
		if p.Max() != 128 || clients.Current() != p {
			t.Errorf("max is %d after a failed reload, want 128", p.Max())
		}
	}
	s.ask("127.0.0.2", "example.org.")
	if got := seen(t)["127.0.0.2"]; got.Queries != 3 {
		t.Errorf("after failed reloads: %+v, want 3 queries", got)
	}
	s.stop()
	if clients.Current() != nil {
		t.Error("the state is still there when nobody wants it: a failed instance holds it")
	}
}

// A reload without the plugin drops the state; a restart finds it in the file.
func TestRestartFindsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seen")
	options := "clients {\nfile " + path + "\n}"
	s := run(t, options)
	for range 2 {
		s.ask("127.0.0.2", "example.org.")
	}
	if err := s.reload(""); err != nil {
		t.Fatal(err)
	}
	if clients.Current() != nil {
		t.Error("the state is still there without the plugin")
	}
	s.stop()
	run(t, options)
	if got := seen(t)["127.0.0.2"]; got.Queries != 2 {
		t.Errorf("after the restart: %+v, want 2 queries", got)
	}
}

func TestMetadataAndMetrics(t *testing.T) {
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.2 two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := run(t, "clients {\ntop 1\nnames hosts "+hosts+"\n}\nlog . \"NAMED {/clients/name} {/clients/address}\"")
	out := capture(t, func() {
		for range 3 {
			s.ask("127.0.0.2", "example.org.")
		}
		s.ask("127.0.0.3", "example.org.")
		time.Sleep(300 * time.Millisecond) // the answer is sent before it is logged
	})
	for _, want := range []string{"NAMED two 127.0.0.2", "NAMED - 127.0.0.3"} {
		if !strings.Contains(out, want) {
			t.Errorf("the log has no %q:\n%s", want, out)
		}
	}

	gather := func() { // the first look decides who is busy
		t.Helper()
		if _, err := prometheus.DefaultGatherer.Gather(); err != nil {
			t.Fatal(err)
		}
	}
	gather()
	for i := range 4 {
		s.ask("127.0.0.2", fmt.Sprintf("n%d.example.org.", i))
	}
	s.ask("127.0.0.3", "n.example.org.")
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) != 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
	text := metrics(t)
	for _, want := range []string{
		`coredns_clients_client_queries_total{client="127.0.0.2",name="two"} 4`,
		`coredns_clients_entries 2`,
		`coredns_clients_entries_max 4096`,
		`coredns_clients_recording_active 0`,
		`coredns_clients_dropped_total 0`,
		`coredns_clients_queries_total{server="dns://` + s.addr + `"} 9`,
		`coredns_clients_answers_total{server="dns://` + s.addr + `"} 9`,
		`coredns_clients_errors_total{server="dns://` + s.addr + `"} 0`,
		`coredns_clients_retries_total{server="dns://` + s.addr + `"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no metric %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "coredns_clients_client_queries_total{"); n != 2 {
		t.Errorf("%d series of clients, want one and other:\n%s", n, text)
	}
}

func metrics(t *testing.T) string {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "coredns_clients_") {
			continue
		}
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

// capture is what f has printed to standard output, where CoreDNS logs.
func capture(t *testing.T, f func()) string {
	t.Helper()
	return clients.CaptureLog(f)
}

func TestSetup(t *testing.T) {
	directives()
	for _, tc := range []struct{ name, corefile, wrong string }{
		{"plain", ".:0 {\nbind 127.0.0.1\nclients\n}", ""},
		{"all options", ".:0 {\nbind 127.0.0.1\nclients {\nmax 64\ntop 0\nfile /nonexistent/seen\nnames hosts /nonexistent/hosts\ninfrastructure 10.0.0.0/8 2001:db8::1\ninfrastructure ::ffff:192.0.2.0/120\n}\n}", ""},
		{"two blocks, options in one", "a.:0 {\nbind 127.0.0.1\nclients {\nmax 64\n}\n}\nb.:0 {\nbind 127.0.0.1\nclients\n}", ""},
		{"two blocks that agree", "a.:0 {\nbind 127.0.0.1\nclients {\nmax 64\n}\n}\nb.:0 {\nbind 127.0.0.1\nclients {\nmax 64\n}\n}", ""},
		{"two blocks that differ in max", "a.:0 {\nbind 127.0.0.1\nclients {\nmax 64\n}\n}\nb.:0 {\nbind 127.0.0.1\nclients {\nmax 65\n}\n}", "max is 64 in one place and 65 in another, but all server blocks share one table: give it once"},
		{"two blocks that differ in file", "a.:0 {\nbind 127.0.0.1\nclients {\nfile /a\n}\n}\nb.:0 {\nbind 127.0.0.1\nclients {\nfile /b\n}\n}", "file is /a in one place and /b in another"},
		{"two blocks that differ in top", "a.:0 {\nbind 127.0.0.1\nclients {\ntop 1\n}\n}\nb.:0 {\nbind 127.0.0.1\nclients {\ntop 2\n}\n}", "top is 1 in one place and 2 in another"},
		{"twice in a block", ".:0 {\nbind 127.0.0.1\nclients\nclients\n}", "this plugin can only be used once per Server Block"},
		{"an argument", ".:0 {\nclients 4096\n}", `"4096": clients takes no arguments, only a block of options`},
		{"unknown option", ".:0 {\nclients {\nmaximum 3\n}\n}", `unknown option "maximum": there are max, top, file, names and infrastructure`},
		{"max too small", ".:0 {\nclients {\nmax 63\n}\n}", "max 63: use a number from 64 to 65536"},
		{"max too large", ".:0 {\nclients {\nmax 65537\n}\n}", "max 65537: use a number from 64 to 65536"},
		{"max without a number", ".:0 {\nclients {\nmax\n}\n}", "max wants one number, 64 to 65536"},
		{"top too large", ".:0 {\nclients {\ntop 101\n}\n}", "top 101: use a number from 0 to 100"},
		{"no file", ".:0 {\nclients {\nfile\n}\n}", "file wants one path"},
		{"names of no kind", ".:0 {\nclients {\nnames /etc/hosts\n}\n}", "names wants the kind of file and its path: names hosts FILE"},
		{"no infrastructure", ".:0 {\nclients {\ninfrastructure\n}\n}", "infrastructure wants prefixes"},
		{"bad infrastructure", ".:0 {\nclients {\ninfrastructure 10.0.0.0/33\n}\n}", `infrastructure: "10.0.0.0/33" is no prefix: write ADDRESS/BITS, or an address`},
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

func TestRoutes(t *testing.T) {
	s := run(t, "clients")
	for i := range 3 {
		for range 2 {
			s.ask(fmt.Sprintf("127.0.0.%d", 2+i), "example.org.")
		}
	}
	mux := http.NewServeMux()
	clients.Routes(mux)
	do := func(method, path, body string, want int, into any) *protocol.Problem {
		t.Helper()
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		b, _ := io.ReadAll(w.Result().Body)
		if w.Code != want {
			t.Fatalf("%s %s: %d %s, want %d", method, path, w.Code, b, want)
		}
		if want >= 400 {
			var p protocol.Problem
			if err := json.Unmarshal(b, &p); err != nil || p.Status != want || p.Detail == "" {
				t.Fatalf("%s %s: %s is no problem: %v", method, path, b, err)
			}
			return &p
		}
		if into != nil {
			if err := json.Unmarshal(b, into); err != nil {
				t.Fatalf("%s %s: %v", method, path, err)
			}
		}
		return nil
	}
	var page protocol.SeenPage
	do("GET", "/v1/clients?limit=2", "", 200, &page)
	if len(page.Clients) != 2 || page.Total != 3 || page.Next != "127.0.0.3" || page.BootID == "" || page.Max != clients.DefaultMax {
		t.Errorf("first page: %+v", page)
	}
	page = protocol.SeenPage{}
	do("GET", "/v1/clients?limit=2&after=127.0.0.3", "", 200, &page)
	if len(page.Clients) != 1 || page.Next != "" || page.Clients[0].Address != "127.0.0.4" {
		t.Errorf("second page: %+v", page)
	}
	var stats protocol.Stats
	do("GET", "/v1/stats", "", 200, &stats)
	if stats.Queries != 6 || stats.Answers != 6 || stats.BootID == "" || len(stats.LatencyMs) != len(protocol.LatencyBoundsMs)+1 {
		t.Errorf("stats: %+v", stats)
	}
	var rs protocol.RecordingState
	do("PUT", "/v1/recordings/d1", `{"fleet":"f","seconds":60,"targets":["127.0.0.2/32"]}`, 200, &rs)
	if rs.Drill != "d1" || rs.Frozen {
		t.Errorf("recording: %+v", rs)
	}
	s.ask("127.0.0.2", "example.org.")
	var rec protocol.Recording
	do("GET", "/v1/recordings/d1", "", 200, &rec)
	if len(rec.Clients) != 1 || len(rec.Clients[0].Samples) != 1 || rec.BootID == "" {
		t.Errorf("recorded: %+v", rec)
	}
	rec = protocol.Recording{}
	do("GET", "/v1/recordings/d1?samples=none&after=0", "", 200, &rec)
	if len(rec.Clients) != 1 || rec.Clients[0].Samples != nil {
		t.Errorf("recorded, without samples: %+v", rec)
	}
	for _, tc := range []struct {
		method, path, body string
		status             int
		reason             protocol.Reason
		field              string
	}{
		{"GET", "/v1/clients?limit=0", "", 400, protocol.ReasonBadRequest, "limit"},
		{"GET", "/v1/clients?limit=1001", "", 400, protocol.ReasonBadRequest, "limit"},
		{"GET", "/v1/clients?after=here", "", 400, protocol.ReasonBadRequest, "after"},
		{"GET", "/v1/clients?afterwards=127.0.0.1", "", 400, protocol.ReasonBadRequest, "afterwards"},
		{"GET", "/v1/clients?limit=1&limit=2", "", 400, protocol.ReasonBadRequest, "limit"},
		{"GET", "/v1/stats?x=1", "", 400, protocol.ReasonBadRequest, "x"},
		{"GET", "/v1/recordings/d2", "", 404, protocol.ReasonNotFound, ""},
		{"GET", "/v1/recordings/d1?samples=all", "", 400, protocol.ReasonBadRequest, "samples"},
		{"GET", "/v1/recordings/d1?after=-1", "", 400, protocol.ReasonBadRequest, "after"},
		{"PUT", "/v1/recordings/d1", `{"fleet":"f","seconds":60,"target":[]}`, 400, protocol.ReasonBadRequest, "target"},
		{"PUT", "/v1/recordings/d1", `{"fleet":"f","seconds":60}{}`, 400, protocol.ReasonBadRequest, ""},
		{"PUT", "/v1/recordings/d1", `{"fleet":"f","seconds":0}`, 400, protocol.ReasonBadRequest, "seconds"},
		{"PUT", "/v1/recordings/d2", `{"fleet":"f","seconds":60}`, 409, protocol.ReasonOtherRecording, ""},
	} {
		if p := do(tc.method, tc.path, tc.body, tc.status, nil); p.Reason() != tc.reason || p.Field != tc.field {
			t.Errorf("%s %s: %v in field %q, want %s in %q", tc.method, tc.path, p, p.Field, tc.reason, tc.field)
		}
	}
	do("DELETE", "/v1/recordings/d1", "", 204, nil)
	do("DELETE", "/v1/recordings/d1", "", 204, nil)
	do("GET", "/v1/recordings/d1", "", 404, nil)
	do("PUT", "/v1/recordings/d2", `{"fleet":"f","seconds":60,"targets":[]}`, 200, nil)
}

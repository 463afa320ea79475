package hedge

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/metrics"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/whoami"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	caddy.Quiet, dnsserver.Quiet = true, true
	if os.Getenv("HEDGE_LOG") == "" {
		clog.Discard()
	}
	if err := dnsserver.SetDirectives([]string{"bind", "ready", "control", "prometheus", "errors", "hedge", "whoami"}); err != nil {
		panic(err)
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(
			// Both begin with the process and never end.
			goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
			goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	families, _ := prometheus.DefaultGatherer.Gather()
	for _, f := range families {
		// CoreDNS recovers from a panic, and answers SERVFAIL.
		if f.GetName() == "coredns_panics_total" && f.GetMetric()[0].GetCounter().GetValue() > 0 {
			fmt.Fprintln(os.Stderr, "there were panics")
			code = 1
		}
	}
	os.Exit(code)
}

// server is a CoreDNS with a hedge.
type server struct {
	inst *caddy.Instance
	addr string
}

func input(corefile string) caddy.CaddyfileInput {
	return caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"}
}

func freePort(t testing.TB) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, port, _ := net.SplitHostPort(c.LocalAddr().String())
	return port
}

// serve starts a server for everything with that hedge.
func serve(t testing.TB, hedge string) *server {
	t.Helper()
	var err error
	for range 5 { // a port that was free may be taken by now
		s := &server{addr: "127.0.0.1:" + freePort(t)}
		if s.inst, err = caddy.Start(input(s.corefile(hedge))); err != nil {
			continue
		}
		s.settle(t)
		t.Cleanup(func() { s.stop(t) })
		return s
	}
	t.Fatal(err)
	return nil
}

func (s *server) corefile(hedge string) string {
	_, port, _ := net.SplitHostPort(s.addr)
	return fmt.Sprintf(".:%s {\nbind 127.0.0.1\nerrors\n%s\n}\n", port, hedge)
}

func (s *server) reload(t testing.TB, hedge string) {
	t.Helper()
	inst, err := s.inst.Restart(input(s.corefile(hedge)))
	if err != nil {
		t.Fatal(err)
	}
	s.inst = inst
}

// settle waits until it serves: CoreDNS hangs when it is stopped before.
func (s *server) settle(t testing.TB) {
	t.Helper()
	m := new(dns.Msg).SetQuestion(".", dns.TypeA)
	m.Opcode = dns.OpcodeStatus // not taken, and told so before any plugin
	for _, over := range []string{"udp", "tcp"} {
		c := &dns.Client{Net: over, Timeout: 100 * time.Millisecond}
		within(t, 5*time.Second, "serving over "+over, func() bool { _, _, err := c.Exchange(m, s.addr); return err == nil })
	}
}

func (s *server) stop(t testing.TB) {
	s.inst.ShutdownCallbacks()
	if err := s.inst.Stop(); err != nil {
		t.Error(err)
	}
	s.inst.Wait()
}

// ask asks for the address of name, as a client with EDNS.
func (s *server) ask(name string) (*dns.Msg, time.Duration, error) {
	m := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA)
	m.SetEdns0(1232, false)
	return s.exchange(m, "udp")
}

func (s *server) exchange(m *dns.Msg, over string) (*dns.Msg, time.Duration, error) {
	c := &dns.Client{Net: over, Timeout: 6 * time.Second}
	start := time.Now()
	r, _, err := c.Exchange(m, s.addr)
	return r, time.Since(start), err
}

// good says what is wrong with an answer, or "".
func good(m *dns.Msg, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case m.Rcode != dns.RcodeSuccess:
		return dns.RcodeToString[m.Rcode]
	case len(m.Answer) != 1 || m.Answer[0].(*dns.A).A.String() != "192.0.2.1":
		return "wrong: " + m.String()
	}
	return ""
}

func ede(m *dns.Msg) int {
	if m == nil {
		return -1
	}
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				return int(e.InfoCode)
			}
		}
	}
	return -1
}

// groups are those of the Corefile that runs.
func groupOf(t testing.TB) *group {
	t.Helper()
	all := state.running()
	if len(all) == 0 {
		t.Fatal("no group runs")
	}
	return all[len(all)-1]
}

// ejected says whether an upstream is, over the transport that is asked first.
func ejected(t testing.TB, key string) bool {
	t.Helper()
	for _, h := range groupOf(t).view.Health() {
		if h.Key == key {
			return h.Links[0].Ejected
		}
	}
	return false
}

// within waits for something to become true.
func within(t testing.TB, d time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("not within %s: %s", d, what)
			return
		}
	}
}

// TestCorefile: what is taken, and what is refused with which words.
func TestCorefile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := dir + "/" + name
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	others := write("resolv.conf", "nameserver 10.0.0.1\nnameserver 169.254.20.10\n")
	ourselves := write("self.conf", "nameserver 169.254.20.10\n")
	nobody := write("nobody.conf", "search a\n")
	for _, test := range []struct{ corefile, want string }{
		{"hedge . 10.0.0.1", ""},
		{"hedge . 10.0.0.1:5353 [2001:db8::1]:53 2001:db8::2 dns://10.0.0.2 tls://10.0.0.3%dns.test tls://10.0.0.4%dns.test:8853", ""},
		{"hedge . fe80::1%eth0 [fe80::2%eth0]:5353", ""},
		{"hedge . dns.example.org dns.example.org:5353 {\nresolver 10.0.0.1 10.0.0.2:54\n}", ""},
		{"hedge cluster.local kubernetes kube-dns.kube-system:53 {\nfallback 10.96.0.10\nnode n1\nzone z1\nsnapshot " + dir + "/snap\nforce_tcp\n}", ""},
		{"hedge . " + others, ""},
		{"hedge . 10.0.0.1 {\nexcept a.test b.test\nexcept c.test\nprefer_udp\nexpire 20s\nmax_age 5m\nmax_concurrent 10\npolicy sequential\ndeadline 2s\nprobe a.test NS\n}", ""},
		{"hedge . tls://10.0.0.1 {\ntls\ntls_servername dns.test\n}", ""},
		{"hedge a.test 10.0.0.1\nhedge . 10.0.0.1", ""},

		{"hedge", "want a zone and upstreams"},
		{"hedge .", "want a zone and upstreams"},
		{"hedge 10.0.0.0/9 10.0.0.1", `"10.0.0.0/9" is no zone, or more than one`},
		{"hedge . 10.0.0.1 10.0.0.1:53", "10.0.0.1:53 is named twice"},
		{"hedge . 10.0.0.1\nhedge . 10.0.0.2", ". is hedged twice"},
		{"hedge . 0.0.0.0", `"0.0.0.0" is no address of a server`},
		{"hedge . 224.0.0.1", "is no address of a server"},
		{"hedge . 10.0.0.256", `"10.0.0.256" is no upstream: write IP[:PORT]`},
		{"hedge . 10.0.0.1:0", `"0" is no port: use 1 to 65535`},
		{"hedge . 10.0.0.1:99999", `"99999" is no port`},
		{"hedge . https://10.0.0.1", "for https use forward"},
		{"hedge . quic://10.0.0.1", "hedge asks over plain DNS and DNS over TLS"},
		{"hedge . tls://10.0.0.1%", "a server's name belongs after the %"},
		{"hedge . kubernetes", "kubernetes wants a Service after it"},
		{"hedge . kubernetes kube-dns", `"kube-dns" is no Service: write SERVICE.NAMESPACE[:PORT]`},
		{"hedge . kubernetes kube-dns.kube-system.svc", "is no Service"},
		{"hedge . kubernetes kube-dns.kube-system:", "a port's number or name belongs after the colon"},
		{"hedge . kubernetes kube-dns.kube-system:0", `"0" is no port: use 1 to 65535, or the port's name`},
		{"hedge . kubernetes kube-dns.kube-system:65536", `"65536" is no port`},
		{"hedge . fe80::1%eth0:53", "a port belongs behind brackets: [IP%INTERFACE]:PORT"},
		{"hedge . /nowhere/resolv.conf", "no such file"},
		{"hedge . " + nobody, "names no nameserver"},
		{"hedge . " + ourselves, "names this server itself (169.254.20.10:53) and no other"},
		{"hedge . 169.254.20.10", "169.254.20.10 is this server itself"},
		{"hedge . " + strings.Repeat("10.0.0.1 ", 16), "16 upstreams are more than the 15"},
		{"hedge . 10.0.0.1 {\nfly\n}", "fly: no such option: there are except, force_tcp"},
		{"hedge . 10.0.0.1 {\nmax_fails 3\n}", "max_fails: this is forward's: hedge ejects by its own rules"},
		{"hedge . 10.0.0.1 {\nexpire 5s\nexpire 6s\n}", "expire is given twice"},
		{"hedge . 10.0.0.1 {\nexpire soon\n}", `expire: "soon": use a duration from 1s to 1h0m0s`},
		{"hedge . 10.0.0.1 {\nexpire\n}", "expire: want one duration"},
		{"hedge . 10.0.0.1 {\nexpire 1m\nmax_age 30s\n}", "max_age (30s) is less than expire (1m0s)"},
		{"hedge . 10.0.0.1 {\ndeadline 1ms\n}", `deadline: "1ms": use a duration from 100ms to 30s`},
		{"hedge . 10.0.0.1 {\nmax_concurrent 0\n}", `max_concurrent: "0": use 1 to`},
		{"hedge . 10.0.0.1 {\npolicy round_robin\n}", `policy: "round_robin": use random`},
		{"hedge . 10.0.0.1 {\nforce_tcp\nprefer_udp\n}", "force_tcp and prefer_udp contradict each other"},
		{"hedge . 10.0.0.1 {\nforce_tcp yes\n}", "force_tcp: want nothing"},
		{"hedge . 10.0.0.1 {\nprobe a.test AXFR\n}", `probe: "AXFR" is no type to probe with`},
		{"hedge . 10.0.0.1 {\ntls\n}", "tls goes with a tls:// upstream, and there is none"},
		{"hedge . tls://10.0.0.1%a.test {\ntls_servername b.test\n}", "contradict each other"},
		{"hedge . tls://10.0.0.1 {\ntls /nowhere.pem\n}", "/nowhere.pem"},
		{"hedge . 10.0.0.1 {\nresolver 10.0.0.2\n}", "resolver goes with an upstream that is a host's name"},
		{"hedge . 10.0.0.1 {\nfallback 10.0.0.2\n}", "fallback goes with a kubernetes upstream"},
		{"hedge . kubernetes a.b {\nfallback kube-dns\n}", `fallback: "kube-dns" is no address`},
		{"hedge . kubernetes a.b {\nfallback 169.254.20.10\n}", "fallback 169.254.20.10:53 is this server itself"},
		{"hedge . 10.0.0.1 {\nsnapshot a\n}", "snapshot goes with upstreams that are followed"},
	} {
		c := caddy.NewTestController("dns", test.corefile)
		c.ServerBlockKeys = []string{"dns://.:53"}
		dnsserver.GetConfig(c).ListenHosts = []string{"169.254.20.10"}
		dnsserver.GetConfig(c).Port = "53"
		_, err := parseAll(c)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s\n got %q\nwant %q", test.corefile, got, test.want)
		}
	}
}

// TestDefaults: deadlines and probes are those of what is asked, which is what the
// server block has where FROM says nothing.
func TestDefaults(t *testing.T) {
	for text, want := range map[string]string{
		"hedge . 10.0.0.1":                        "4s . NS",
		"hedge . kubernetes a.b":                  "4s . NS",
		"hedge cluster.local 10.0.0.1":            "900ms cluster.local. SOA",
		"hedge in-addr.arpa 10.0.0.1":             "900ms in-addr.arpa. SOA",
		"hedge 10.0.0.0/8 10.0.0.1":               "900ms 10.in-addr.arpa. SOA",
		"hedge corp.test 10.0.0.1":                "4s corp.test. SOA",
		"hedge corp.test kubernetes a.b":          "900ms corp.test. SOA",
		"hedge a.test 10.0.0.1 {\ndeadline 1s\n}": "1s a.test. SOA",

		"dns://cluster.local.:53 | hedge . 10.0.0.1":                                         "900ms cluster.local. SOA",
		"dns://cluster.local.:53 dns://in-addr.arpa.:53 | hedge . kubernetes a.b":            "900ms cluster.local. SOA",
		"dns://corp.test.:53 | hedge . kubernetes a.b":                                       "900ms corp.test. SOA",
		"dns://corp.test.:53 | hedge . 10.0.0.1":                                             "4s corp.test. SOA",
		"dns://cluster.local.:53 dns://corp.test.:53 | hedge . 10.0.0.1":                     "4s cluster.local. SOA",
		"dns://.:53 | hedge . kubernetes a.b":                                                "4s . NS",
		"dns://corp.test.:53 | hedge sub.corp.test 10.0.0.1 {\ndeadline 1s\nprobe a.test\n}": "1s a.test. SOA",
	} {
		keys, corefile, found := strings.Cut(text, " | ")
		if !found {
			keys, corefile = "", text
		}
		c := caddy.NewTestController("dns", corefile)
		c.ServerBlockKeys = strings.Fields(keys)
		all, err := parseAll(c)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		o := all[0]
		if got := fmt.Sprintf("%s %s %s", o.deadline, o.probe.name, dns.TypeToString[o.probe.qtype]); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

package calm_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	_ "firebreakdns.io/firebreak/plugin/control"
	_ "firebreakdns.io/firebreak/plugin/drill"
	_ "firebreakdns.io/firebreak/plugin/hedge"
	_ "firebreakdns.io/firebreak/plugin/nodecache"
	"firebreakdns.io/firebreak/plugin/pkg/wire"
	"firebreakdns.io/firebreak/test/upstream"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/metrics"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	_ "github.com/coredns/coredns/plugin/timeouts"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// corefileVariable makes this program a DNS server with the Corefile that it names.
const corefileVariable = "CALM_COREFILE"

var _ = clients.Now // its plugin is in the Corefiles, and its clock in the tests

func TestMain(m *testing.M) {
	caddy.Quiet, dnsserver.Quiet = true, true
	if err := dnsserver.SetDirectives([]string{"timeouts", "bind", "control", "clients", "drill", "prometheus", "errors", "nodecache", "hedge"}); err != nil {
		panic(err)
	}
	if path := os.Getenv(corefileVariable); path != "" {
		os.Exit(serveAlone(path))
	}
	if os.Getenv("CALM_LOG") == "" {
		clog.Discard()
	}
	os.Exit(m.Run())
}

// serveAlone is the server of a process of its own, until it is told to end.
func serveAlone(path string) int {
	b, err := os.ReadFile(path) // #nosec G304 -- the test's
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	inst, err := caddy.Start(input(string(b)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	<-end
	inst.ShutdownCallbacks()
	_ = inst.Stop()
	inst.Wait()
	return 0
}

// strict says that figures are held that only a quiet machine can show.
func strict() bool { return os.Getenv("FIREBREAK_SOAK") != "" }

// server is a CoreDNS in this process.
type server struct {
	inst *caddy.Instance
	addr string
}

// start starts one with these plugins in a block for everything.
func start(t testing.TB, plugins string) *server {
	t.Helper()
	var err error
	for range 5 { // a port that was free may be taken by now
		s := &server{addr: "127.0.0.1:" + freePort(t)}
		if s.inst, err = caddy.Start(input(s.corefile(plugins))); err != nil {
			continue
		}
		t.Cleanup(func() {
			s.inst.ShutdownCallbacks()
			if err := s.inst.Stop(); err != nil {
				t.Error(err)
			}
			s.inst.Wait()
		})
		eventually(t, 5*time.Second, "packets reach the fast way", func() bool {
			g := wire.Find(s.addr)
			return g != nil && g.Steered()
		})
		return s
	}
	t.Fatal(err)
	return nil
}

func (s *server) corefile(plugins string) string {
	_, port, _ := net.SplitHostPort(s.addr)
	return ".:" + port + " {\nbind 127.0.0.1\n" + plugins + "\n}\n"
}

func (s *server) reload(t testing.TB, plugins string) {
	t.Helper()
	next, err := s.inst.Restart(input(s.corefile(plugins)))
	if err != nil {
		t.Fatal(err)
	}
	s.inst = next
}

func input(corefile string) caddy.Input {
	return caddy.CaddyfileInput{Filepath: "Corefile", Contents: []byte(corefile), ServerTypeName: "dns"}
}

// freePort is free for UDP and TCP.
func freePort(t testing.TB) string {
	t.Helper()
	for range 50 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p, err := net.ListenPacket("udp", l.Addr().String())
		_ = l.Close()
		if err != nil {
			continue
		}
		_ = p.Close()
		return fmt.Sprint(netip.MustParseAddrPort(l.Addr().String()).Port())
	}
	t.Fatal("no port is free")
	return ""
}

// upstreams starts n servers; those are their addresses for a Corefile.
func upstreams(t testing.TB, n int) (all []*upstream.Server, addrs string) {
	t.Helper()
	for range n {
		u := upstream.Run(t, "")
		all = append(all, u)
		addrs += " " + u.Addr()
	}
	return all, addrs
}

func eventually(t testing.TB, within time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

func query(name string) *dns.Msg {
	m := new(dns.Msg).SetQuestion(name, dns.TypeA)
	m.SetEdns0(1232, false)
	return m
}

// ask asks over a socket of its own.
func ask(addr, name string, wait time.Duration) (*dns.Msg, time.Duration, error) {
	c := &dns.Client{Timeout: wait}
	began := time.Now()
	r, _, err := c.Exchange(query(name), addr)
	return r, time.Since(began), err
}

// bad says what is wrong with an answer, or "".
func bad(r *dns.Msg, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case r.Rcode != dns.RcodeSuccess:
		return dns.RcodeToString[r.Rcode]
	case len(r.Answer) != 1:
		return "wrong: " + r.String()
	}
	if a, is := r.Answer[0].(*dns.A); !is || a.A.String() != "192.0.2.1" {
		return "wrong: " + r.String()
	}
	return ""
}

func ede(r *dns.Msg) int {
	if o := r.IsEdns0(); o != nil {
		for _, x := range o.Option {
			if e, is := x.(*dns.EDNS0_EDE); is {
				return int(e.InfoCode)
			}
		}
	}
	return -1
}

// metric is the sum of a metric's series whose labels hold all of with, each as
// name=value.
func metric(t testing.TB, name string, with ...string) (sum float64) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := ","
			for _, l := range m.GetLabel() {
				labels += l.GetName() + "=" + l.GetValue() + ","
			}
			matches := true
			for _, w := range with {
				matches = matches && strings.Contains(labels, ","+w+",")
			}
			if matches {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

//go:build linux

package nodelocal

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// Pods ask addresses that only the node has; the node answers, in both families,
// over UDP and TCP, and nothing is tracked.
func TestLinkLocal(t *testing.T) {
	l := newLab(t)
	l.clusterDNS()
	before := l.state()
	s := l.nodeServer(conf{addrs: []netip.Addr{local4, local6}}).captured()
	l.holds("node", local4, local6)
	l.holds("cluster", service4, service6) // nobody asked for those
	if got := l.tables(); len(got) != 1 {
		t.Errorf("tables = %q, want one", got)
	}
	rules := l.in(l.node, "nft", "list", "ruleset")
	if n := strings.Count(rules, "notrack"); n != 12 {
		t.Errorf("%d rules, want 12: to each of two addresses over two protocols, in and out, and from them\n%s", n, rules)
	}
	for _, want := range []string{`"captured":true`, `"owner":true`, `"linkKind":"`, `"ready":true`} {
		if state := s.state(); !strings.Contains(state, want) {
			t.Errorf("state = %s, want %s", state, want)
		}
	}
	for _, want := range []string{"coredns_nodelocal_captured 2", "coredns_nodelocal_owner 1", "coredns_nodelocal_generations 1", `coredns_nodelocal_not_ready{reason="check"} 0`, `coredns_nodelocal_repairs_total{why="link"} 0`} {
		if m := s.metrics(); !strings.Contains(m, want) {
			t.Errorf("metrics have no %q", want)
		}
	}
	s.stop()
	l.same(before)
}

// A Service's address is captured only when the server answers, and given back
// with it: before and after, cluster DNS answers, also the node's own programs.
func TestServiceAddress(t *testing.T) {
	l := newLab(t)
	l.clusterDNS()
	all := []netip.Addr{local4, service4, service6}
	before := l.state()
	l.holds("cluster", service4, service6)

	// Its upstream is broken: nothing is captured, for as long as that lasts.
	s := l.nodeServer(conf{addrs: all, upstream: "10.244.1.99"})
	s.says(15*time.Second, "Not captured")
	l.holds("cluster", service4, service6)
	if s.isReady() {
		t.Error("it is ready though nothing is captured")
	}
	if state := s.state(); !strings.Contains(state, `"reason":"check"`) || !strings.Contains(state, "up.test.") {
		t.Errorf("state = %s, want the check as the reason", state)
	}
	if m := s.metrics(); !strings.Contains(m, `coredns_nodelocal_not_ready{reason="check"} 1`) {
		t.Error("the metrics do not say why")
	}

	// It comes up: captured, within two seconds, one check and its answer.
	l.in(l.server, "ip", "addr", "add", "10.244.1.99/24", "dev", "eth0")
	until(t, 8*time.Second, "the addresses are captured", s.isReady)
	l.holds("node", all...)

	// It goes again: what was captured stays so.
	l.in(l.server, "ip", "addr", "del", "10.244.1.99/24", "dev", "eth0")
	time.Sleep(3 * time.Second)
	l.holds("node", all...)
	if !s.isReady() {
		t.Error("a dead upstream made it not ready")
	}

	s.stop()
	l.same(before)
	l.holds("cluster", service4, service6)
}

// What is asked before anything is captured does not reach the clients' way, and
// what is sent from the node to a Service keeps its source.
func TestNothingChangesBeforeTheCapture(t *testing.T) {
	l := newLab(t)
	l.clusterDNS()
	s := l.nodeServer(conf{addrs: []netip.Addr{local4, service4, service6}, upstream: "10.244.1.99"})
	s.says(15*time.Second, "Not captured")
	for _, a := range []netip.Addr{service4, service6} {
		route := l.in(l.node, "ip", "route", "get", a.String())
		if !strings.Contains(route, "src 10.244.1.1 ") && !strings.Contains(route, "src fd00:244:1::1 ") {
			t.Errorf("the node sends to %s as %q, want its own address", a, strings.TrimSpace(route))
		}
	}
	// Many questions, so that a share of captured ones would show.
	for range 50 {
		if got := l.who(l.pod, "udp", service4); got != "cluster" {
			t.Fatalf("a pod is answered by %q before the capture", got)
		}
		if got := l.who(l.node, "udp", service6); got != "cluster" {
			t.Fatalf("the node is answered by %q before the capture", got)
		}
	}
}

// A reload moves from one set of addresses to another, and who stays notices
// nothing.
func TestReload(t *testing.T) {
	l := newLab(t)
	l.clusterDNS()
	before := l.state()
	c := conf{addrs: []netip.Addr{local4, service4}, extra: "reload 2s 1s"}
	s := l.nodeServer(c).captured()
	l.holds("node", local4, service4)
	l.holds("cluster", service6)

	stays := l.stream(l.pod, local4)
	moves := l.stream(l.pod2, service4)
	c.addrs = []netip.Addr{local4, local6, service6}
	s.write(c.corefile(s.dir))
	s.says(15*time.Second, "Reloading complete")
	until(t, 5*time.Second, "the new addresses are captured", func() bool { return strings.Contains(s.state(), "fd00:96::a") && s.isReady() })
	if lost := stays.stop(); lost > 0 {
		t.Errorf("%d questions to the address that stays were lost", lost)
	}
	if lost := moves.stop(); lost > 0 {
		t.Errorf("%d questions to the address that is given back were lost", lost)
	}
	l.holds("node", local4, local6, service6)
	l.holds("cluster", service4)
	if addrs := l.in(l.node, "ip", "-o", "addr", "show", "nodelocaldns"); strings.Contains(addrs, service4.String()) {
		t.Errorf("the address that is not wanted any more is still there:\n%s", addrs)
	}

	// One that fails changes nothing.
	was := l.state()
	for i, broken := range []string{
		strings.Replace(c.corefile(s.dir), "errors", "nonsense", 1),
		strings.Replace(c.corefile(s.dir), "check up.test.", "check up.test.\n\t\tlink other", 1),
		strings.Replace(strings.ReplaceAll(c.corefile(s.dir), local4.String(), "169.254.20.11"), "ready 127.0.0.1:8181", "ready 192.0.2.1:8181", 1) + ".:53 {\n bind 192.0.2.1\n whoami\n}\n",
	} {
		s.write(broken)
		until(t, 15*time.Second, "the broken Corefile is refused", func() bool { return strings.Count(s.said(), "Restart failed:") == i+1 })
	}
	if !s.isReady() {
		t.Error("a Corefile that does not load made it not ready")
	}
	l.holds("node", local4, local6, service6)
	until(t, 35*time.Second, "the node is as it was", func() bool { return l.state() == was })

	// One without the directive gives all of it back.
	plain := ". {\n\tbind 127.0.0.1\n\treload 2s 1s\n\twhoami\n}\n"
	s.write(plain)
	until(t, 15*time.Second, "it is reloaded", func() bool { return strings.Count(s.said(), "Reloading complete") == 2 })
	l.same(before)
}

// The server cannot listen at one address: the others, and the node, are as before.
func TestBrokenCorefile(t *testing.T) {
	l := newLab(t)
	l.clusterDNS()
	before := l.state()
	for name, corefile := range map[string]func(dir string) string{
		"unknown word":   func(string) string { return ".:53 {\n bind 169.254.20.10\n nodelocal 169.254.20.10\n nonsense\n}\n" },
		"nobody listens": func(string) string { return ".:53 {\n bind 127.0.0.1\n nodelocal 169.254.20.10\n whoami\n}\n" },
		"other port":     func(string) string { return ".:5353 {\n bind 169.254.20.10\n nodelocal 169.254.20.10\n whoami\n}\n" },
		"two directives": func(string) string {
			return "a {\n bind 169.254.20.10\n nodelocal 169.254.20.10\n whoami\n}\nb {\n bind 169.254.20.10\n nodelocal 169.254.20.11\n whoami\n}\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := l.launch(l.node, corefile)
			if said := s.fails(); name == "nobody listens" && !strings.Contains(said, "bind 169.254.20.10") {
				t.Errorf("it said %s, want what to write", said)
			}
			l.same(before)
		})
	}
	// What fails after the addresses were put, and is not theirs: they end by themselves,
	// and nobody was sent to them.
	s := l.launch(l.node, func(string) string {
		return ".:53 {\n bind 169.254.20.10 10.96.0.10\n nodelocal 169.254.20.10 10.96.0.10\n whoami\n}\nother:53 {\n bind 192.0.2.1\n whoami\n}\n"
	})
	s.fails()
	l.holds("cluster", service4)
	if got := l.tables(); len(got) != 0 {
		t.Errorf("tables = %q, want none", got)
	}
	addrs := l.in(l.node, "ip", "-o", "addr", "show", "nodelocaldns")
	if strings.Contains(addrs, "169.254.20.10") && strings.Contains(addrs, "forever") && !strings.Contains(addrs, "sec") {
		t.Errorf("the addresses stay for ever:\n%s", addrs)
	}
	// The next one takes over.
	l.nodeServer(conf{addrs: []netip.Addr{local4, service4}}).captured().stop()
	l.same(before)
}

//go:build linux

package nodelocal

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Where only iptables works: the same, in chains of its own that are there once.
func TestIPTables(t *testing.T) {
	l := newLab(t)
	for _, tool := range []string{"iptables", "ip6tables"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: there is no %s here: apt-get install iptables", tool)
		}
	}
	l.clusterDNS()
	addrs := []netip.Addr{local4, local6, service4, service6}
	// iptables leaves its empty tables behind; here they are there before.
	for _, c := range []string{"iptables", "ip6tables"} {
		for table, chains := range map[string][]string{"raw": {"PREROUTING", "OUTPUT"}, "filter": {"INPUT", "OUTPUT"}} {
			for _, chain := range chains {
				l.in(l.node, c, "-t", table, "-A", chain, "-j", "ACCEPT")
				l.in(l.node, c, "-t", table, "-D", chain, "-j", "ACCEPT")
			}
		}
	}
	save := func() string {
		return l.in(l.node, "sh", "-c", "iptables-save | grep ^-; ip6tables-save | grep ^-; true")
	}
	before := l.state()
	one := func() error {
		rules := save()
		for _, want := range []string{"-A PREROUTING -j FIREBREAK-nodelocaldns", "-A OUTPUT -j FIREBREAK-nodelocaldns", "-A INPUT -j FIREBREAK-nodelocaldns"} {
			n := 2 // families
			if strings.Contains(want, "OUTPUT") {
				n = 4 // and tables
			}
			if got := strings.Count(rules, want); got != n {
				return fmt.Errorf("%d times %q, want %d", got, want, n)
			}
		}
		if n := strings.Count(rules, "-A FIREBREAK-nodelocaldns"); n != 4*4*2 {
			return fmt.Errorf("%d rules, want 32", n)
		}
		return nil
	}
	whole := func() bool { return one() == nil }

	s := l.nodeServer(conf{addrs: addrs, options: "rules iptables"}).captured()
	l.holds("node", addrs...)
	if err := one(); err != nil {
		t.Errorf("%v\n%s", err, save())
	}
	for _, action := range []string{"iptables -t raw -F", "ip6tables -t raw -F FIREBREAK-nodelocaldns", "iptables -t filter -D INPUT 1", "iptables -t raw -I PREROUTING -j FIREBREAK-nodelocaldns"} {
		l.in(l.node, "sh", "-c", action)
		took := until(t, time.Second, "whole again after "+action, whole)
		t.Logf("%s: whole after %s", action, took.Round(time.Millisecond))
	}
	// Killed: the next one takes over, and there is one set.
	for range 2 {
		s.kill()
		s = l.nodeServer(conf{addrs: addrs, options: "rules iptables"}).captured()
		until(t, 2*time.Second, "there is one set", whole)
	}
	// Two at once, and the old one ends.
	young := l.nodeServer(conf{addrs: addrs, options: "rules iptables", ready: "8281"}).captured()
	s.stop()
	if err := one(); err != nil {
		t.Errorf("after the old one ended: %v\n%s", err, save())
	}
	l.holds("node", addrs...)
	young.stop()
	l.same(before)
	l.holds("cluster", service4, service6)
}

// NodeLocal DNSCache was killed and left its link, an address more, and its rules:
// link and addresses are taken over, rules for them removed, and in the end nothing
// of it is left.
func TestAfterNodeLocal(t *testing.T) {
	l := newLab(t)
	if _, err := exec.LookPath("iptables"); err != nil {
		t.Skip("skipped: there is no iptables here: apt-get install iptables")
	}
	l.clusterDNS()
	l.in(l.node, "iptables", "-t", "raw", "-A", "PREROUTING", "-j", "ACCEPT")
	l.in(l.node, "iptables", "-t", "raw", "-D", "PREROUTING", "-j", "ACCEPT")
	before := l.state()
	l.in(l.node, "ip", "link", "add", "nodelocaldns", "type", "ifb")
	for _, a := range []string{"169.254.20.10/32", "10.96.0.10/32", "10.96.0.99/32"} {
		l.in(l.node, "ip", "addr", "add", a, "dev", "nodelocaldns")
	}
	for _, protocol := range []string{"udp", "tcp"} {
		for _, a := range []string{"169.254.20.10", "10.96.0.10"} {
			l.in(l.node, "iptables", "-t", "raw", "-A", "PREROUTING", "-d", a, "-p", protocol, "--dport", "53", "-m", "comment", "--comment", "NodeLocal DNS Cache: skip conntrack", "-j", "CT", "--notrack")
		}
	}
	if got := l.who(l.pod, "udp", service4); got == "cluster" {
		t.Fatal("what NodeLocal left does not capture: the test proves nothing")
	}
	s := l.nodeServer(conf{addrs: []netip.Addr{local4, service4}}).captured()
	l.holds("node", local4, service4)
	s.says(2*time.Second, "10.96.0.99")
	if left := l.in(l.node, "sh", "-c", "iptables -t raw -S | grep NodeLocal || true"); left != "" {
		t.Errorf("rules that NodeLocal left are still there:\n%s", left)
	}
	s.stop()
	l.same(before)
	l.holds("cluster", service4)
}

// A reload brings the other family, which iptables has another program for.
func TestIPTablesOfBothFamilies(t *testing.T) {
	l := newLab(t)
	for _, tool := range []string{"iptables", "ip6tables"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: there is no %s here: apt-get install iptables", tool)
		}
	}
	l.clusterDNS()
	c := conf{addrs: []netip.Addr{service4}, options: "rules iptables", extra: "reload 2s 1s"}
	s := l.nodeServer(c).captured()
	l.holds("node", service4)
	l.holds("cluster", service6)
	c.addrs = []netip.Addr{service4, service6}
	s.write(c.corefile(s.dir))
	until(t, 15*time.Second, "the IPv6 address is captured", func() bool { return strings.Contains(s.state(), "fd00:96::a") && s.isReady() })
	l.holds("node", service4, service6)
	s.stop()
	l.holds("cluster", service4, service6)
	if left := l.in(l.node, "sh", "-c", "(iptables-save; ip6tables-save) | grep FIREBREAK || true"); left != "" {
		t.Errorf("left:\n%s", left)
	}
}

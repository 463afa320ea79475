//go:build linux

package nodelocal

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listen holds a UDP port and shares it, as the user that this is.
func listen(at string) error {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, 15, 1) // SO_REUSEPORT
		}); e != nil {
			return e
		}
		return err
	}}
	c, err := lc.ListenPacket(context.Background(), "udp", at)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println("listens")
	time.Sleep(time.Minute)
	return nil
}

// Each thing that can be in the way is said, with what to do about it, and the
// node's DNS is as it was.
func TestBadInput(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(l *lab)
		addrs   []netip.Addr
		options string
		before  []string
		wants   []string // in the error
	}{
		{
			name: "no NET_ADMIN", before: []string{"setpriv", "--bounding-set", "-net_admin"},
			wants: []string{"NET_ADMIN"},
		},
		{
			name:    "address on another link",
			prepare: func(l *lab) { l.in(l.node, "ip", "addr", "add", "169.254.20.10/32", "dev", "dns") },
			wants:   []string{"169.254.20.10 is on link dns (bridge)", "ip addr del"},
		},
		{
			name: "a Service's address in IPVS mode",
			prepare: func(l *lab) {
				l.in(l.node, "ip", "link", "add", "kube-ipvs0", "type", "bridge")
				l.in(l.node, "ip", "addr", "add", "10.96.0.10/32", "dev", "kube-ipvs0")
			},
			wants: []string{"IPVS mode", "leave 10.96.0.10 out"},
		},
		{
			name:    "a link of that name",
			prepare: func(l *lab) { l.in(l.node, "ip", "link", "add", "nodelocaldns", "type", "bridge") },
			wants:   []string{"nodelocaldns already, and it is a bridge", "link NAME"},
		},
		{
			name:    "port 53 taken everywhere",
			prepare: func(l *lab) { l.hold("udp", "0.0.0.0:53") },
			wants:   []string{"port 53 over udp without sharing it", "ss -lpn"},
		},
		{
			name:    "port 53 taken over TCP",
			prepare: func(l *lab) { l.hold("tcp", "0.0.0.0:53") },
			wants:   []string{"port 53 over tcp"},
		},
		{
			name:    "another user on the port",
			prepare: func(l *lab) { l.stranger("0.0.0.0:53") },
			wants:   []string{"user 65534 listens at", ":53 over udp", "same user"},
		},
		{
			name: "IPv6 off",
			prepare: func(l *lab) {
				l.in(l.node, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
			},
			addrs: []netip.Addr{local4, local6},
			wants: []string{"IPv6 is off", "fd00:20::10"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			l.clusterDNS()
			if tc.prepare != nil {
				tc.prepare(l)
			}
			before := l.state()
			c := conf{addrs: tc.addrs, options: tc.options}
			if c.addrs == nil {
				c.addrs = []netip.Addr{local4, service4}
			}
			said := l.nodeServer(c, tc.before...).fails()
			for _, want := range tc.wants {
				if !strings.Contains(said, want) {
					t.Errorf("it said %s\nwant %q", said, want)
				}
			}
			l.same(before)
			if got := l.who(l.pod, "udp", service4); got != "cluster" {
				t.Errorf("the Service is answered by %q, want cluster", got)
			}
		})
	}
}

// hold keeps a port of the node's, unshared, until the lab ends.
func (l *lab) hold(network, at string) {
	l.t.Helper()
	var err error
	var c interface{ Close() error }
	if e := within(l.node, func() {
		if network == "udp" {
			c, err = net.ListenPacket("udp4", at)
		} else {
			c, err = net.Listen("tcp4", at)
		}
	}); e != nil || err != nil {
		l.t.Fatal(e, err)
	}
	l.t.Cleanup(func() { c.Close() })
}

// stranger is another user's program that holds a port and shares it.
func (l *lab) stranger(at string) {
	l.t.Helper()
	self, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		l.t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(program(l.t)), "listener")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		l.t.Fatal(err)
	}
	l.in(l.node, "sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=0")
	cmd := exec.Command("ip", "netns", "exec", l.node, "setpriv", "--reuid", "65534", "--clear-groups", path)
	cmd.Env = append(os.Environ(), asListener+"="+at)
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := start(cmd); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 16)); err != nil {
		l.t.Fatal(err)
	}
}

// A firewall that drops untracked packets is seen before it drops any: in the
// rules where they say so, and else by asking.
func TestFirewall(t *testing.T) {
	for name, tc := range map[string]struct{ rules, fix, want string }{
		"a list of states": {
			`table inet host {
				chain input {
					type filter hook input priority 0
					ct state { invalid, untracked } drop
				}
			}`,
			accepting("inet host input"), "chain input",
		},
		"a mask of states, further on": {
			`table inet host {
				chain more {
					counter
					ct state invalid,untracked counter reject
				}
				chain input {
					type filter hook input priority 0
					iifname "nothing" accept
					jump more
				}
			}`,
			accepting("inet host more"), "chain more",
		},
		"a map of states": {
			`table ip host {
				chain prerouting {
					type filter hook prerouting priority filter
					ct state vmap { established : accept, related : accept, untracked : drop }
				}
			}`,
			accepting("ip host prerouting"), "chain prerouting",
		},
		"only of pods": {
			`table inet host {
				chain input {
					type filter hook input priority 0
					iifname lo accept
					ct state untracked drop
				}
			}`,
			accepting("inet host input"), "chain input",
		},
		"by asking": {
			`table inet host {
				chain input {
					type filter hook input priority 0; policy drop
					ct state established,related,new accept
				}
			}`,
			`nft insert rule inet host input ct state untracked accept`,
			"a firewall of the host drops untracked packets",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.clusterDNS()
			l.nft(l.node, tc.rules)
			s := l.nodeServer(conf{addrs: []netip.Addr{service4}})
			s.says(20*time.Second, "untracked packets")
			if said := s.said(); !strings.Contains(said, tc.want) || name != "by asking" && !strings.Contains(said, tc.fix) {
				t.Errorf("it said %s\nwant %q and %q", said, tc.want, tc.fix)
			}
			if state := s.state(); !strings.Contains(state, `"reason":"firewall"`) {
				t.Errorf("state = %s, want the firewall as the reason", state)
			}
			if m := s.metrics(); !strings.Contains(m, `coredns_nodelocal_not_ready{reason="firewall"} 1`) || strings.Contains(m, `coredns_nodecache_setup_errors_total{errortype="iptables"} 0`) {
				t.Error("the metrics do not say why")
			}
			if s.isReady() {
				t.Error("it is ready")
			}
			l.holds("cluster", service4)
			// What it says helps.
			l.in(l.node, "sh", "-c", tc.fix)
			until(t, 45*time.Second, "captured after the fix", s.isReady)
			l.holds("node", service4)
		})
	}
}

// accepting is the command that is to help.
func accepting(chain string) string {
	return "nft 'insert rule " + chain + " ip daddr 10.96.0.10 meta l4proto { tcp, udp } th dport 53 accept; insert rule " + chain + " ip saddr 10.96.0.10 meta l4proto { tcp, udp } th sport 53 accept'"
}

// A firewall that lets the host itself through, and of pods' packets only tracked
// ones, is found by the pods' first packets: they are answered by cluster DNS again.
func TestFirewallOfPods(t *testing.T) {
	l := newLab(t)
	l.clusterDNS()
	l.nft(l.node, `table inet host {
		chain input {
			type filter hook input priority 0; policy drop
			iifname lo accept
			ct state established,related,new accept
		}
	}`)
	s := l.nodeServer(conf{addrs: []netip.Addr{local4, service4}}).captured()
	began := time.Now()
	until(t, 5*time.Second, "a pod is answered by cluster DNS again", func() bool {
		return l.ask(l.pod, "udp", service4, "who.test.", 100*time.Millisecond) == "cluster"
	})
	t.Logf("a pod was answered by cluster DNS again after %s", time.Since(began).Round(time.Millisecond))
	s.says(time.Second, "none of them got through")
	if s.isReady() {
		t.Error("it is ready")
	}
	if state := s.state(); !strings.Contains(state, `"reason":"firewall"`) {
		t.Errorf("state = %s, want the firewall as the reason", state)
	}
	l.holds("cluster", service4)
	if got := l.who(l.pod, "udp", local4); got != "node" { // tracked, it gets through
		until(t, 5*time.Second, "a pod is answered at the node's own address", func() bool { return l.who(l.pod, "udp", local4) == "node" })
	}
	// Accepted, it is captured when its time has come.
	l.in(l.node, "nft", "insert", "rule", "inet", "host", "input", "ct", "state", "untracked", "accept")
	until(t, 40*time.Second, "captured after the fix", s.isReady)
	l.holds("node", service4)
}

// Neither nftables nor iptables: said, with what to do; not captured, not ready.
func TestNoRules(t *testing.T) {
	l := newLab(t)
	l.clusterDNS()
	before := l.state()
	s := l.nodeServer(conf{addrs: []netip.Addr{local4, service4}, options: "rules iptables"}, "env", "PATH=/nonexistent")
	s.says(10*time.Second, "there is no program iptables")
	if s.isReady() {
		t.Error("it is ready without rules")
	}
	l.holds("cluster", service4)
	if m := s.metrics(); !strings.Contains(m, `coredns_nodelocal_not_ready{reason="rules"} 1`) {
		t.Error("the metrics do not say why")
	}
	s.stop()
	l.same(before)
}

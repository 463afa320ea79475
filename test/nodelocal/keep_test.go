//go:build linux

package nodelocal

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// whole says that everything is as it is to be, in the words of ip and nft.
func (l *lab) whole(addrs []netip.Addr) error {
	out, err := l.try("ip", "-o", "addr", "show", "dev", "nodelocaldns", "up")
	if err != nil {
		return fmt.Errorf("no link: %s", out)
	}
	for _, a := range addrs {
		if !strings.Contains(out, " "+a.String()+"/") {
			return fmt.Errorf("%s is not there", a)
		}
	}
	rules, err := l.try("nft", "list", "ruleset")
	if err != nil {
		return err
	}
	if n := strings.Count(rules, "table inet firebreak-"); n != 1 {
		return fmt.Errorf("%d tables of ours", n)
	}
	if n := strings.Count(rules, "notrack"); n != 6*len(addrs) {
		return fmt.Errorf("%d rules", n)
	}
	return nil
}

func (l *lab) try(args ...string) (string, error) {
	out, err := command(l.node, args...).CombinedOutput()
	return string(out), err
}

// Whatever somebody takes away is back within a second, whole.
func TestRepair(t *testing.T) {
	l := newLab(t)
	l.clusterDNS()
	before := l.state()
	addrs := []netip.Addr{local4, service4, service6}
	for _, teardown := range []string{"remove", "keep"} {
		s := l.nodeServer(conf{addrs: addrs, options: "teardown " + teardown}).captured()
		l.holds("node", addrs...)
		table := strings.Fields(l.tables()[0])[2]
		actions := [][]string{
			{"ip", "link", "del", "nodelocaldns"},
			{"ip", "addr", "del", local4.String() + "/32", "dev", "nodelocaldns"},
			{"ip", "addr", "del", service6.String() + "/128", "dev", "nodelocaldns"},
			{"ip", "addr", "flush", "dev", "nodelocaldns"},
			{"ip", "link", "set", "nodelocaldns", "down"},
			{"nft", "flush", "ruleset"},
			{"nft", "delete", "table", "inet", table},
			{"nft", "flush", "chain", "inet", table, "prerouting"},
			{"nft", "flush", "table", "inet", table},
			{"nft", "add", "rule", "inet", table, "output", "counter"},
		}
		repairs := 0
		for _, action := range actions {
			out, err := l.try(action...)
			if err != nil {
				// The kernel lets nobody touch a table that has an owner.
				if teardown == "remove" && action[0] == "nft" && strings.Contains(out, "Operation not permitted") {
					t.Logf("%s: refused by the kernel: the table is its process's", strings.Join(action, " "))
					continue
				}
				t.Fatalf("%v: %v: %s", action, err, out)
			}
			var broken error
			took := until(t, time.Second, fmt.Sprintf("whole again after %v (%v)", action, broken), func() bool {
				broken = l.whole(addrs)
				return broken == nil
			})
			if teardown == "keep" || action[0] == "ip" {
				repairs++
				until(t, time.Second, fmt.Sprintf("the repair after %v is counted, %d in all", action, repairs), func() bool {
					return !strings.Contains(s.state(), fmt.Sprintf(`"repairs":%d,`, repairs-1))
				})
			}
			t.Logf("teardown %s: %s: whole after %s", teardown, strings.Join(action, " "), took.Round(time.Millisecond))
			if slices.Contains(action, "ruleset") {
				l.service() // kube-proxy would
			}
			l.holds("node", addrs...)
		}
		if s.says(time.Second, "it is back"); !s.isReady() {
			t.Error("repairs made it not ready")
		}
		s.stop()
		if teardown == "remove" {
			l.same(before)
			continue
		}
		if err := l.whole(addrs); err != nil {
			t.Errorf("teardown keep did not keep: %v", err)
		}
		// The next one that removes takes over, and leaves nothing.
		l.nodeServer(conf{addrs: addrs}).captured().stop()
		l.same(before)
	}
}

// Killed, it leaves no rules: who asks the Service is answered by cluster DNS at
// once, and by the node again after the restart. There is one set then.
func TestKilled(t *testing.T) {
	l := newLab(t)
	l.clusterDNS()
	before := l.state()
	addrs := []netip.Addr{local4, local6, service4, service6}
	s := l.nodeServer(conf{addrs: addrs}).captured()
	l.holds("node", addrs...)

	s.kill()
	l.holds("cluster", service4, service6)
	if got := l.tables(); len(got) != 0 {
		t.Errorf("tables = %q after kill -9, want none", got)
	}
	began := time.Now()
	s = l.nodeServer(conf{addrs: addrs})
	until(t, 5*time.Second, "answered by the node again", func() bool {
		for _, a := range addrs {
			if l.ask(l.pod, "udp", a, "who.test.", 100*time.Millisecond) != "node" {
				return false
			}
		}
		return true
	})
	t.Logf("answered by the node %s after the restart began", time.Since(began).Round(time.Millisecond))
	s.captured()
	if err := l.whole(addrs); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	l.holds("node", addrs...)

	// With other addresses than the one that was killed.
	s.kill()
	fewer := []netip.Addr{local4, service4}
	s = l.nodeServer(conf{addrs: fewer}).captured()
	until(t, 2*time.Second, "what nobody serves any more is gone", func() bool {
		return !strings.Contains(l.in(l.node, "ip", "-o", "addr", "show", "dev", "nodelocaldns"), "fd00:96::a")
	})
	if err := l.whole(fewer); err != nil {
		t.Errorf("after a restart with fewer addresses: %v", err)
	}
	l.holds("cluster", service6)
	s.stop()
	l.same(before)
}

// Killed with teardown keep, the rules stay; the next one has one set.
func TestKilledAndKept(t *testing.T) {
	l := newLab(t)
	l.clusterDNS()
	before := l.state()
	addrs := []netip.Addr{local4, service4}
	for range 3 {
		s := l.nodeServer(conf{addrs: addrs, options: "teardown keep"}).captured()
		until(t, 2*time.Second, "there is one set", func() bool { return l.whole(addrs) == nil })
		s.kill()
		if got := l.tables(); len(got) != 1 {
			t.Errorf("tables = %q after kill -9 with teardown keep, want one", got)
		}
	}
	s := l.nodeServer(conf{addrs: addrs}).captured()
	until(t, 2*time.Second, "there is one set", func() bool { return l.whole(addrs) == nil })
	s.says(time.Second, "Removed what a generation left that was killed")
	s.stop()
	l.same(before)
}

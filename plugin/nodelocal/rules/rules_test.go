//go:build linux

package rules

import (
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"firebreakdns.io/firebreak/plugin/nodelocal/netnstest"
)

var (
	v4 = netip.MustParseAddr("169.254.20.10")
	v6 = netip.MustParseAddr("fd00:20::10")
)

// nftPrints is the ruleset as the program nft has it.
func nftPrints(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("nft", "list", "ruleset").CombinedOutput()
	if err != nil {
		t.Skipf("skipped: there is no nft here (apt-get install nftables): %v", err)
	}
	return string(out)
}

func open(t *testing.T, kind string, o Options) Backend {
	t.Helper()
	o.IPv4, o.IPv6 = true, true
	b, err := Open(kind, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNFTables(t *testing.T) {
	netnstest.Need(t)
	before := nftPrints(t)
	for _, keep := range []bool{false, true} {
		b := open(t, NFTables, Options{Link: "dns", ID: "aa", Keep: keep})
		set := Set{Port: 53, Probe: []netip.Addr{v6}, Capture: []netip.Addr{v4}}
		for range 2 { // the second time changes nothing
			if err := b.Apply(set); err != nil {
				t.Fatal(err)
			}
		}
		got := nftPrints(t)
		for _, want := range []string{
			"table inet firebreak-dns-aa",
			"type filter hook prerouting priority raw; policy accept;",
			"type filter hook output priority raw; policy accept;",
			"ip daddr 169.254.20.10 udp dport 53 notrack",
			"ip saddr 169.254.20.10 tcp sport 53 notrack",
			"ip6 saddr fd00:20::10 ip6 daddr fd00:20::10 udp dport 53 notrack",
			"type filter hook input priority 1000; policy accept;",
			`iifname != "lo" ip daddr 169.254.20.10 udp dport 53 counter packets 0 bytes 0`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("keep %v: no %q in\n%s", keep, want, got)
			}
		}
		if n := strings.Count(got, "notrack"); n != 12 {
			t.Errorf("keep %v: %d rules, want 12\n%s", keep, n, got)
		}
		if whole, err := b.Intact(); err != nil || !whole {
			t.Errorf("keep %v: Intact = %v, %v", keep, whole, err)
		}
		// Somebody else's rules change nothing of ours.
		run(t, "nft", "add", "table", "inet", "other")
		run(t, "nft", "delete", "table", "inet", "other")
		if whole, err := b.Intact(); err != nil || !whole {
			t.Errorf("keep %v: Intact = %v, %v after another's change", keep, whole, err)
		}
		err := exec.Command("nft", "flush", "chain", "inet", "firebreak-dns-aa", "output").Run()
		if keep != (err == nil) {
			t.Errorf("keep %v: flushing our chain: %v; only an ordinary table can be changed", keep, err)
		}
		if whole, e := b.Intact(); e != nil || whole == keep {
			t.Errorf("keep %v: Intact = %v, %v after a flush (%v)", keep, whole, e, err)
		}
		if err := b.Apply(set); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(keep); err != nil {
			t.Fatal(err)
		}
		if there := strings.Contains(nftPrints(t), "firebreak-dns-aa"); there != keep {
			t.Errorf("keep %v: there is a table after Close: %v", keep, there)
		}
	}
	// What was left is swept, once its generation does not live.
	b := open(t, NFTables, Options{Link: "dns", ID: "bb"})
	if removed, err := b.Sweep([]string{"aa"}); err != nil || len(removed) != 0 {
		t.Errorf("Sweep = %q, %v while it lives", removed, err)
	}
	other := open(t, NFTables, Options{Link: "dns", ID: "cc"}) // owned: it lives, whatever is said
	if removed, err := b.Sweep(nil); err != nil || !slices.Equal(removed, []string{"table inet firebreak-dns-aa"}) {
		t.Errorf("Sweep = %q, %v", removed, err)
	}
	if err := b.Close(false); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(false); err != nil {
		t.Fatal(err)
	}
	if after := nftPrints(t); after != before {
		t.Errorf("left behind:\n%s", after)
	}
}

func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", argv, err, out)
	}
	return string(out)
}

func TestSetEqual(t *testing.T) {
	a := Set{Port: 53, Capture: []netip.Addr{v4}}
	for _, b := range []Set{{Port: 54, Capture: a.Capture}, {Port: 53}, {Port: 53, Probe: a.Capture}} {
		if a.Equal(b) || !a.Equal(a) {
			t.Errorf("%+v equals %+v", a, b)
		}
	}
}

// Each of the two kinds of iptables that is here.
func TestIPTables(t *testing.T) {
	netnstest.Need(t)
	tried := 0
	for _, kind := range []string{"legacy", "nft"} {
		if _, err := exec.LookPath("iptables-" + kind); err != nil {
			continue
		}
		tried++
		f4, f6 := family{false, "iptables-" + kind}, family{true, "ip6tables-" + kind}
		b := &ipt{o: Options{Link: "nodelocaldns", families: []family{f4, f6}}}
		set := Set{Port: 53, Probe: []netip.Addr{v6}, Capture: []netip.Addr{v4}}
		for range 3 { // never duplicated
			if err := b.Apply(set); err != nil {
				t.Fatal(err)
			}
		}
		if whole, err := b.Intact(); err != nil || !whole {
			t.Errorf("%s: Intact = %v, %v", kind, whole, err)
		}
		raw := run(t, "iptables-"+kind, "-t", "raw", "-S")
		for want, n := range map[string]int{
			"-A PREROUTING -j FIREBREAK-nodelocaldns": 1,
			"-A OUTPUT -j FIREBREAK-nodelocaldns":     1,
			"-j CT --notrack":                         4,
		} {
			if got := strings.Count(raw, want); got != n {
				t.Errorf("%s: %d times %q, want %d\n%s", kind, got, want, n, raw)
			}
		}
		for _, action := range [][]string{
			{"iptables-" + kind, "-t", "raw", "-F", "FIREBREAK-nodelocaldns"},
			{"iptables-" + kind, "-t", "filter", "-D", "INPUT", "1"},
			{"ip6tables-" + kind, "-t", "raw", "-I", "OUTPUT", "-j", "FIREBREAK-nodelocaldns"},
		} {
			run(t, action...)
			if whole, err := b.Intact(); err != nil || whole {
				t.Errorf("%s: Intact = %v, %v after %v", kind, whole, err, action)
			}
			if err := b.Apply(set); err != nil {
				t.Fatal(err)
			}
			if whole, err := b.Intact(); err != nil || !whole {
				t.Errorf("%s: Intact = %v, %v, repaired after %v", kind, whole, err, action)
			}
		}
		if err := b.Close(false); err != nil {
			t.Fatal(err)
		}
		for _, c := range []string{"iptables-", "ip6tables-"} {
			if left := run(t, c+kind+"-save"); strings.Contains(left, "FIREBREAK") {
				t.Errorf("%s left:\n%s", kind, left)
			}
		}
	}
	if tried == 0 {
		t.Skip("skipped: there is no iptables here: apt-get install iptables")
	}
}

// What NodeLocal DNSCache left for our addresses goes, and nothing else.
func TestLeftovers(t *testing.T) {
	netnstest.Need(t)
	tried := 0
	for _, kind := range []string{"legacy", "nft"} {
		command := "iptables-" + kind
		if _, err := exec.LookPath(command); err != nil {
			continue
		}
		tried++
		for _, addr := range []string{"169.254.20.10/32", "169.254.20.99/32"} {
			run(t, command, "-t", "raw", "-A", "PREROUTING", "-d", addr, "-p", "udp", "--dport", "53", "-m", "comment", "--comment", "NodeLocal DNS Cache: skip conntrack", "-j", "NOTRACK")
			run(t, command, "-t", "filter", "-A", "INPUT", "-d", addr, "-p", "udp", "--dport", "53", "-m", "comment", "--comment", "NodeLocal DNS Cache: allow DNS traffic", "-j", "ACCEPT")
		}
		run(t, command, "-t", "raw", "-A", "PREROUTING", "-d", "169.254.20.10/32", "-p", "udp", "--dport", "53", "-j", "NOTRACK")
		n, hint, err := Leftovers([]netip.Addr{v4, v6})
		if n != 2 || hint != "" || err != nil {
			t.Errorf("%s: Leftovers = %d, %q, %v, want 2", kind, n, hint, err)
		}
		left := run(t, command, "-t", "raw", "-S") + run(t, command, "-t", "filter", "-S")
		if strings.Count(left, "NodeLocal") != 2 || strings.Count(left, "169.254.20.10/32") != 1 {
			t.Errorf("%s: what is left:\n%s", kind, left)
		}
		run(t, command, "-t", "raw", "-F")
		run(t, command, "-t", "filter", "-F")
	}
	if tried == 0 {
		t.Skip("skipped: there is no iptables here: apt-get install iptables")
	}
}

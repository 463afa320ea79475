package nodelocal

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/coredns/caddy"
)

func parsed(t *testing.T, corefile string) (*options, error) {
	t.Helper()
	return parse(caddy.NewTestController("dns", corefile))
}

func TestParse(t *testing.T) {
	a := netip.MustParseAddr
	defaults := options{addrs: []netip.Addr{a("169.254.20.10")}, link: "nodelocaldns", rules: "auto", port: 53, check: "kubernetes.default.svc.cluster.local."}
	for corefile, change := range map[string]func(o *options){
		"nodelocal 169.254.20.10": func(*options) {},
		"nodelocal fd00::a 10.96.0.10 169.254.20.10": func(o *options) {
			o.addrs = []netip.Addr{a("10.96.0.10"), a("169.254.20.10"), a("fd00::a")}
		},
		"nodelocal 169.254.20.10 {\n link dns0\n rules nftables\n port 1053\n check Example.ORG\n teardown keep\n}": func(o *options) {
			o.link, o.rules, o.port, o.check, o.keep = "dns0", "nftables", 1053, "example.org.", true
		},
		"nodelocal 169.254.20.10 {\n link lo\n rules none\n teardown remove\n}": func(o *options) { o.link, o.rules = "lo", "none" },
	} {
		want := defaults
		change(&want)
		got, err := parsed(t, corefile)
		if err != nil || !got.same(&want) {
			t.Errorf("%q = %+v, %v, want %+v", corefile, got, err, want)
		}
	}
}

// Each error says what is wrong and what to write instead.
func TestParseErrors(t *testing.T) {
	for corefile, want := range map[string]string{
		"nodelocal":                             "want the node's addresses",
		"nodelocal nodelocaldns":                "is no IP address",
		"nodelocal 169.254.20.10/32":            "write the address alone, 169.254.20.10",
		"nodelocal 169.254.20.10 169.254.20.10": "169.254.20.10 is given twice",
		"nodelocal 224.0.0.1":                   "multicast",
		"nodelocal ff02::1":                     "multicast",
		"nodelocal 0.0.0.0":                     "stands for all addresses",
		"nodelocal ::":                          "stands for all addresses",
		"nodelocal 127.0.0.53":                  "each pod has that one for itself",
		"nodelocal ::1":                         "each pod has that one for itself",
		"nodelocal fe80::1":                     "resolv.conf cannot say",
		"nodelocal fe80::1%eth0":                "zone",
		"nodelocal ::ffff:169.254.20.10":        "write 169.254.20.10",
		"nodelocal 255.255.255.255":             "no host can have it",
		"nodelocal 0.1.2.3":                     "no host can have it",
		"nodelocal 169.254.20.10 {\n link 0123456789abcdef\n}":      "16 bytes, the kernel takes 15",
		"nodelocal 169.254.20.10 {\n link a/b\n}":                   "letters, digits",
		"nodelocal 169.254.20.10 {\n link all\n}":                   "means something else",
		"nodelocal 169.254.20.10 {\n link -x\n}":                    "begin with a letter",
		"nodelocal 169.254.20.10 {\n link a b\n}":                   "wants one word",
		"nodelocal 169.254.20.10 {\n link a\n link b\n}":            "link is given twice",
		"nodelocal 169.254.20.10 {\n rules pf\n}":                   "auto (nftables, else iptables)",
		"nodelocal 169.254.20.10 {\n port 0\n}":                     "1 to 65535",
		"nodelocal 169.254.20.10 {\n port 65536\n}":                 "1 to 65535",
		"nodelocal 169.254.20.10 {\n check a..b\n}":                 "no domain name",
		"nodelocal 169.254.20.10 {\n teardown never\n}":             "remove (the default",
		"nodelocal 169.254.20.10 {\n rules none\n teardown keep\n}": "remove one of the two",
		"nodelocal 169.254.20.10 {\n colour red\n}":                 "there are link, rules, port, check and teardown",
		"nodelocal 169.254.20.10\nnodelocal 169.254.20.11":          "given twice in a server block",
	} {
		if o, err := parsed(t, corefile); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q = %+v, %v, want an error that says %q", corefile, o, err, want)
		}
	}
	var many strings.Builder
	for range maxAddresses + 1 {
		fmt.Fprintf(&many, " 10.0.0.%d", many.Len())
	}
	if _, err := parsed(t, "nodelocal"+many.String()); err == nil || !strings.Contains(err.Error(), "more than the 16") {
		t.Errorf("more addresses than a node may have: %v", err)
	}
}

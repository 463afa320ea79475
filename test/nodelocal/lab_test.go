//go:build linux

package nodelocal

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// Addresses in the lab.
var (
	local4   = netip.MustParseAddr("169.254.20.10")
	local6   = netip.MustParseAddr("fd00:20::10")
	service4 = netip.MustParseAddr("10.96.0.10")
	service6 = netip.MustParseAddr("fd00:96::a")
	cluster4 = netip.MustParseAddr("10.244.1.53")
	cluster6 = netip.MustParseAddr("fd00:244:1::53")
)

// lab is a node with two pods and cluster DNS behind a Service.
type lab struct {
	t                       *testing.T
	node, pod, pod2, server string // namespaces
}

func newLab(t *testing.T) *lab {
	t.Helper()
	t.Parallel() // each has namespaces of its own, and waits most of the time
	return newLabAlone(t)
}

// newLabAlone is for tests that measure: no other runs meanwhile.
func newLabAlone(t *testing.T) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: network namespaces need root: run it as root")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: there is no %s here: apt-get install iproute2 nftables", tool)
		}
	}
	id := unique()
	l := &lab{t: t, node: "fbnl-" + id + "-node", pod: "fbnl-" + id + "-pod", pod2: "fbnl-" + id + "-pod2", server: "fbnl-" + id + "-dns"}
	t.Cleanup(l.close)
	for _, ns := range []string{l.node, l.pod, l.pod2, l.server} {
		l.run("ip", "netns", "add", ns)
		// No wait for duplicates that there are none of.
		l.in(ns, "sysctl", "-qw", "net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.default.accept_dad=0")
		l.in(ns, "ip", "link", "set", "lo", "up")
	}
	l.in(l.node, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
	l.segment("pods", "10.244.0.1/24", "fd00:244::1/64", map[string][2]string{l.pod: {"10.244.0.10/24", "fd00:244::10/64"}, l.pod2: {"10.244.0.11/24", "fd00:244::11/64"}})
	l.segment("dns", "10.244.1.1/24", "fd00:244:1::1/64", map[string][2]string{l.server: {cluster4.String() + "/24", cluster6.String() + "/64"}})
	l.service()
	// A node has a way to the rest of the world, through which it would send to a Service.
	l.in(l.node, "ip", "route", "add", "default", "via", cluster4.String())
	l.in(l.node, "ip", "-6", "route", "add", "default", "via", cluster6.String())
	return l
}

// service translates the Service's addresses to cluster DNS, as kube-proxy does,
// but without hiding who asks.
func (l *lab) service() {
	l.nft(l.node, `table inet kube-proxy {
		chain translate {
			ip daddr 10.96.0.10 meta l4proto { tcp, udp } th dport 53 dnat ip to 10.244.1.53
			ip6 daddr fd00:96::a meta l4proto { tcp, udp } th dport 53 dnat ip6 to fd00:244:1::53
		}
		chain prerouting { type nat hook prerouting priority dstnat; jump translate; }
		chain output { type nat hook output priority -100; jump translate; }
	}`)
}

// segment is a bridge of the node with namespaces on it.
func (l *lab) segment(bridge, gateway4, gateway6 string, hosts map[string][2]string) {
	l.in(l.node, "ip", "link", "add", bridge, "type", "bridge")
	l.in(l.node, "ip", "addr", "add", gateway4, "dev", bridge)
	l.in(l.node, "ip", "addr", "add", gateway6, "dev", bridge, "nodad")
	l.in(l.node, "ip", "link", "set", bridge, "up")
	n := 0
	for ns, addrs := range hosts {
		n++
		port := fmt.Sprintf("%s%d", bridge, n)
		l.run("ip", "link", "add", "eth0", "netns", ns, "type", "veth", "peer", "name", port, "netns", l.node)
		l.in(l.node, "ip", "link", "set", port, "master", bridge, "up")
		l.in(ns, "ip", "addr", "add", addrs[0], "dev", "eth0")
		l.in(ns, "ip", "addr", "add", addrs[1], "dev", "eth0", "nodad")
		l.in(ns, "ip", "link", "set", "eth0", "up")
		l.in(ns, "ip", "route", "add", "default", "via", strings.Split(gateway4, "/")[0])
		l.in(ns, "ip", "-6", "route", "add", "default", "via", strings.Split(gateway6, "/")[0])
	}
}

// close removes what the lab made. Programs in it are the tests' to end.
func (l *lab) close() {
	for _, ns := range []string{l.pod, l.pod2, l.server, l.node} {
		_ = exec.Command("ip", "netns", "del", ns).Run()
	}
}

func (l *lab) run(name string, args ...string) string {
	l.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (l *lab) in(ns string, args ...string) string {
	l.t.Helper()
	return l.run("ip", append([]string{"netns", "exec", ns}, args...)...)
}

func (l *lab) nft(ns, rules string) {
	l.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", ns, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("nft: %v: %s\n%s", err, out, rules)
	}
}

// within runs f on a thread in a namespace: what sockets it opens are there.
func within(ns string, f func()) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		fd, err := unix.Open("/run/netns/"+ns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			unix.Close(fd)
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	return <-done
}

// who asks who answers at an address: "node", "cluster", or why nobody does.
func (l *lab) who(ns, network string, at netip.Addr) string {
	return l.ask(ns, network, at, "who.test.", time.Second)
}

// ask asks a name's TXT once, without repeating it.
func (l *lab) ask(ns, network string, at netip.Addr, name string, timeout time.Duration) (said string) {
	err := within(ns, func() {
		c := &dns.Client{Net: network, Timeout: timeout}
		m := new(dns.Msg).SetQuestion(name, dns.TypeTXT)
		r, _, err := c.Exchange(m, net.JoinHostPort(at.String(), "53"))
		switch {
		case err != nil:
			said = "error: " + err.Error()
		case r.Rcode != dns.RcodeSuccess:
			said = dns.RcodeToString[r.Rcode]
		default:
			for _, rr := range r.Answer {
				if t, ok := rr.(*dns.TXT); ok {
					said = strings.Join(t.Txt, "")
				}
			}
		}
	})
	if err != nil {
		return "error: " + err.Error()
	}
	return said
}

// holds checks who answers at addresses, for pods and the node itself, over UDP
// and TCP.
func (l *lab) holds(want string, at ...netip.Addr) {
	l.t.Helper()
	for _, a := range at {
		for _, ns := range []string{l.pod, l.node} {
			for _, network := range []string{"udp", "tcp"} {
				if got := l.who(ns, network, a); got != want {
					l.t.Errorf("%s over %s from %s is answered by %q, want %q", a, network, ns, got, want)
				}
			}
		}
	}
}

// state is all that may be left behind on the node.
func (l *lab) state() string {
	l.t.Helper()
	var out strings.Builder
	for _, c := range []string{
		"nft -s list ruleset", // without what rules count
		"ip -o addr",
		"ip rule",
		"ip -6 rule",
		"ip route show table all",
		"ip -6 route show table all",
	} {
		out.WriteString("# " + c + "\n" + l.in(l.node, strings.Fields(c)...))
	}
	return out.String()
}

// tables are the node's tables that are ours.
func (l *lab) tables() (found []string) {
	l.t.Helper()
	for line := range strings.Lines(l.in(l.node, "nft", "list", "tables")) {
		if strings.Contains(line, " firebreak-") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// same holds that the node is as it was.
func (l *lab) same(before string) {
	l.t.Helper()
	if after := l.state(); after != before {
		l.t.Errorf("the node is not as it was:\n%s", diff(before, after))
	}
}

// diff are the lines that differ.
func diff(a, b string) string {
	count := make(map[string]int)
	for line := range strings.Lines(a) {
		count[line]--
	}
	for line := range strings.Lines(b) {
		count[line]++
	}
	var out strings.Builder
	for _, text := range []string{a, b} {
		for line := range strings.Lines(text) {
			switch n := count[line]; {
			case n < 0:
				out.WriteString("- " + line)
			case n > 0:
				out.WriteString("+ " + line)
			}
			count[line] = 0
		}
	}
	return out.String()
}

package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// table of ours in a namespace.
const table = "firebreak-avalanche"

// putService makes the cluster's DNS Service out of these endpoints, or changes
// it, in one transaction: each new flow gets one at random, and keeps it for as
// long as the kernel remembers the flow. That is what kube-proxy sets up.
func putService(endpoints []string) error {
	var choices []string
	for i, e := range endpoints {
		choices = append(choices, fmt.Sprintf("%d : %s", i, e))
	}
	pick := fmt.Sprintf("dnat to numgen random mod %d map { %s }", len(endpoints), strings.Join(choices, ", "))
	var b strings.Builder
	fmt.Fprintf(&b, "add table ip %[1]s\ndelete table ip %[1]s\ntable ip %[1]s {\n", table)
	b.WriteString("  chain service {\n")
	for _, proto := range []string{"udp", "tcp"} {
		fmt.Fprintf(&b, "    ip daddr %s %s dport 53 %s\n", serviceIP, proto, pick)
	}
	b.WriteString("  }\n")
	for hook, priority := range map[string]string{"prerouting": "dstnat", "output": "-100"} {
		fmt.Fprintf(&b, "  chain %[1]s { type nat hook %[1]s priority %[2]s; jump service; }\n", hook, priority)
	}
	// A node's cache is asked without tracking, as NodeLocal DNSCache has it.
	for _, hook := range []string{"prerouting", "output"} {
		fmt.Fprintf(&b, "  chain raw-%[1]s { type filter hook %[1]s priority raw; ip daddr %[2]s notrack; ip saddr %[2]s notrack; }\n", hook, nodeLocalIP)
	}
	b.WriteString("}\n")
	return inside(nodeSpace, b.String(), "nft", "-f", "-")
}

// forgetFlows has the kernel forget the UDP flows to an endpoint that is no
// longer one, as kube-proxy does. TCP connections it leaves alone.
func forgetFlows(endpoint string) error {
	err := inside(nodeSpace, "", "conntrack", "-D", "-p", "udp", "--orig-dst", serviceIP, "--reply-src", endpoint)
	if err != nil && strings.Contains(err.Error(), "0 flow entries") {
		return nil // it says so with an error
	}
	return err
}

// blackHole has a server vanish: nothing reaches it, nothing comes back, no
// error says so, as when its node has lost power.
func blackHole(server string) error {
	rules := fmt.Sprintf(`table ip %[1]s {
  counter lost { }
  chain input { type filter hook input priority 0; ip daddr %[2]s udp dport 53 counter name lost; ip daddr %[2]s drop; }
  chain output { type filter hook output priority 0; ip saddr %[2]s drop; }
}
`, table, server)
	return inside(serversSpace, rules, "nft", "-f", "-")
}

// reviveAll undoes blackHole.
func reviveAll() error {
	return inside(serversSpace, fmt.Sprintf("add table ip %[1]s\ndelete table ip %[1]s\n", table), "nft", "-f", "-")
}

var packets = regexp.MustCompile(`packets (\d+)`)

// swallowed is how many UDP queries the black hole has taken.
func swallowed() (int, error) {
	out, err := exec.Command("ip", "netns", "exec", serversSpace, "nft", "list", "counter", "ip", table, "lost").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("nft list counter: %w: %s", err, out)
	}
	m := packets.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no count in %s", out)
	}
	return strconv.Atoi(string(m[1]))
}

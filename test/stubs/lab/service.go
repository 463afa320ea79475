//go:build linux

package lab

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
)

// Service has the router translate an address of a Service to one of the
// backends, chosen at random for each new connection, as kube-proxy's nftables
// mode does. Conntrack remembers the choice: packets from the same port go to
// the same backend for as long as the entry lives, whether or not it answers.
func (l *Lab) Service(vip netip.Addr, backends []netip.Addr) error {
	var choice []string
	for i, b := range backends {
		choice = append(choice, fmt.Sprintf("%d : %s", i, b))
	}
	dnat := fmt.Sprintf("dnat to numgen random mod %d map { %s }", len(backends), strings.Join(choice, ", "))
	rules := fmt.Sprintf(`table ip service {
	chain prerouting {
		type nat hook prerouting priority dstnat; policy accept;
		ip daddr %[1]s udp dport 53 %[2]s
		ip daddr %[1]s tcp dport 53 %[2]s
	}
}
`, vip, dnat)
	cmd := exec.Command("ip", "netns", "exec", l.router, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("a Service with nftables (apt-get install nftables): %w: %s", err, out)
	}
	return nil
}

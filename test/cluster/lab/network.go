package lab

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// The machines are on one bridge, in the control plane's machine, and so is the
// host. No link but the host's has a place on the host, and all go with the
// namespaces that they are in.
const bridge = "machines"

// netSysctls are the network settings of a machine.
func netSysctls() map[string]string {
	return map[string]string{
		"net/ipv4/ip_forward":          "1",
		"net/ipv6/conf/all/forwarding": "1",
		// Addresses are unique by plan: do not wait for a second of silence.
		"net/ipv6/conf/all/accept_dad":     "0",
		"net/ipv6/conf/default/accept_dad": "0",
		// A bridge hands its packets to the firewall on some kernels.
		"net/bridge/bridge-nf-call-iptables":  "0",
		"net/bridge/bridge-nf-call-ip6tables": "0",
	}
}

// wireControl gives the control plane's machine the bridge and the host a link
// to it.
func (c *Cluster) wireControl(ctx context.Context, pid int) error {
	p, link := c.plan, linkName(c.name)
	err := ipBatch(ctx, pid,
		"link set lo up",
		// Without an address of its own, a bridge takes the lowest of its links',
		// and changes it when a node comes or goes: then nobody reaches the API
		// server until neighbours have forgotten the old one.
		fmt.Sprintf("link add %s address %s type bridge", bridge, p.mac(0)),
		fmt.Sprintf("address add %s/24 dev %s", p.control4(), bridge),
		fmt.Sprintf("address add %s/64 dev %s nodad", p.control6(), bridge),
		"link set "+bridge+" up",
	)
	if err != nil {
		return err
	}
	err = ipBatch(ctx, 0,
		fmt.Sprintf("link add %s type veth peer name host netns %d", link, pid),
		fmt.Sprintf("address add %s/24 dev %s", p.host4(), link),
		fmt.Sprintf("address add %s/64 dev %s nodad", p.host6(), link),
		"link set "+link+" up",
	)
	if err != nil {
		return err
	}
	if err := ipBatch(ctx, pid, "link set host master "+bridge+" up"); err != nil {
		return err
	}
	return c.wired(control)
}

// wired notes that a machine has its link, so that it can be told routes.
func (c *Cluster) wired(name string) error {
	return c.change(func(r *record) {
		m := r.Machines[name]
		m.Wired = true
		r.Machines[name] = m
	})
}

// wireNode links a node to the bridge. The node's name is that of the link's
// end at the bridge.
func (c *Cluster) wireNode(ctx context.Context, name string, number, pid, controlPID int) error {
	p := c.plan
	lines := []string{
		"link set lo up",
		// The same at every start, as a network card's.
		fmt.Sprintf("link add eth0 address %s type veth peer name %s netns %d", p.mac(number), name, controlPID),
		fmt.Sprintf("address add %s/24 dev eth0", p.node4(number)),
		fmt.Sprintf("address add %s/64 dev eth0 nodad", p.node6(number)),
		"link set eth0 up",
		// Nothing is behind the control plane: a node's way out ends there.
		fmt.Sprintf("route add default via %s", p.control4()),
		fmt.Sprintf("route add default via %s", p.control6()),
	}
	if err := ipBatch(ctx, pid, lines...); err != nil {
		return err
	}
	if err := ipBatch(ctx, controlPID, fmt.Sprintf("link set %s master %s up", name, bridge)); err != nil {
		return err
	}
	return c.wired(name)
}

// route tells every machine, and the host, the way to the pods of every node,
// as the routes of a cloud or a network plugin would.
func (c *Cluster) route(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(); err != nil {
		return err
	}
	for name, m := range c.record.Machines {
		if !m.Wired || !m.First.alive() {
			continue
		}
		if err := ipBatch(ctx, m.First.PID, c.podRoutes(name, bridgeOrEth(name))...); err != nil {
			return err
		}
	}
	return ipBatch(ctx, 0, c.podRoutes("", linkName(c.name))...)
}

func bridgeOrEth(machine string) string {
	if machine == control {
		return bridge
	}
	return "eth0"
}

// podRoutes lists the ways to the pods of all nodes but one.
func (c *Cluster) podRoutes(but, link string) []string {
	var lines []string
	for name, m := range c.record.Machines {
		if name == but || m.Number == 0 {
			continue
		}
		lines = append(lines,
			fmt.Sprintf("route replace %s via %s dev %s", c.plan.nodePods4(m.Number), c.plan.node4(m.Number), link),
			fmt.Sprintf("route replace %s via %s dev %s", c.plan.nodePods6(m.Number), c.plan.node6(m.Number), link),
		)
	}
	return lines
}

// ipBatch runs lines of ip(8) in the network namespace of a process, or, with
// 0, in that of the host.
func ipBatch(ctx context.Context, pid int, lines ...string) error {
	if len(lines) == 0 {
		return nil
	}
	cmd := inNet(ctx, pid, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s\n%s", cmd, err, said, strings.Join(lines, "\n"))
	}
	return nil
}

// removeLink removes a link, which may not be there, or go at the same time
// since its other end does.
func removeLink(ctx context.Context, pid int, link string) error {
	err := ipBatch(ctx, pid, "link delete "+link)
	if err != nil && inNet(ctx, pid, "ip", "link", "show", link).Run() != nil {
		return nil
	}
	return err
}

// inNet is a command in the network namespace of a process, or, with 0, of the
// host.
func inNet(ctx context.Context, pid int, words ...string) *exec.Cmd {
	if pid != 0 {
		words = append([]string{"nsenter", "--net=/proc/" + strconv.Itoa(pid) + "/ns/net"}, words...)
	}
	return exec.CommandContext(ctx, words[0], words[1:]...)
}

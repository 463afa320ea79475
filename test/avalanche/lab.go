package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// prefix of every namespace: who finds one knows whose it is.
const prefix = "fbavalanche-"

// The namespaces: pods, the node that they are on, and the servers elsewhere.
const (
	podsSpace    = prefix + "pods"
	nodeSpace    = prefix + "node"
	serversSpace = prefix + "servers"
)

// All addresses lie in 198.18.0.0/15, which is reserved for measurements.
const (
	serverCount = 4
	outside     = "198.18.1.9"    // the node's own resolver, which knows the rest of the world
	serviceIP   = "198.18.2.10"   // the cluster's DNS Service
	nodeLocalIP = "169.254.20.10" // where a node's cache listens
)

// serverAddr of the i-th server, from 0; the last is the one that dies.
func serverAddr(i int) string { return fmt.Sprintf("198.18.1.%d", i+1) }

// dead is the server that dies.
var dead = serverAddr(serverCount - 1)

// podAddr of the i-th pod, from 0.
func podAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 8, byte(i + 1)}) }

// lab is the namespaces of one run, and the lock that keeps runs apart.
type lab struct {
	lock *os.File
}

// needs are the programs that make the lab.
var needs = []string{"ip", "nft", "conntrack", "taskset"}

// able says why there can be no lab here; "" if there can.
func able() string {
	if os.Getuid() != 0 {
		return "not root, and it needs network namespaces"
	}
	for _, n := range needs {
		if _, err := exec.LookPath(n); err != nil {
			return n + " is not installed (packages iproute2, nftables, conntrack)"
		}
	}
	return ""
}

// newLab makes the namespaces, after what a killed run left is removed.
func newLab() (*lab, error) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "firebreak-avalanche.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, errors.New("another avalanche runs on this machine: wait for it, their measurements would spoil each other")
	}
	l := &lab{lock: f}
	if err := errors.Join(sweep(), build()); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// close removes everything.
func (l *lab) close() error {
	err := sweep()
	l.lock.Close()
	return err
}

// sweep removes the namespaces with our prefix. Links and tables are in them and
// go with them; processes in them were started to end with whoever started them.
func sweep() error {
	out, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		return fmt.Errorf("ip netns list: %w", err)
	}
	var errs []error
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 0 && strings.HasPrefix(fields[0], prefix) {
			errs = append(errs, command("ip", "netns", "del", fields[0]))
		}
	}
	return errors.Join(errs...)
}

// build makes three namespaces in a row, with the node as the router.
func build() error {
	script := []string{
		"netns add " + podsSpace, "netns add " + nodeSpace, "netns add " + serversSpace,
		"link add eth0 netns " + podsSpace + " type veth peer name pods netns " + nodeSpace,
		"link add eth0 netns " + serversSpace + " type veth peer name servers netns " + nodeSpace,
		"-n " + nodeSpace + " addr add 198.18.0.1/30 dev pods",
		"-n " + nodeSpace + " addr add 198.18.0.5/30 dev servers",
		"-n " + nodeSpace + " addr add " + nodeLocalIP + "/32 dev lo",
		"-n " + podsSpace + " addr add 198.18.0.2/30 dev eth0",
		"-n " + serversSpace + " addr add 198.18.0.6/30 dev eth0",
	}
	for _, ns := range []string{podsSpace, nodeSpace, serversSpace} {
		script = append(script, "-n "+ns+" link set lo up")
	}
	script = append(script,
		"-n "+podsSpace+" link set eth0 up", "-n "+serversSpace+" link set eth0 up",
		"-n "+nodeSpace+" link set pods up", "-n "+nodeSpace+" link set servers up",
		// Every pod's address, without one link for each.
		"-n "+podsSpace+" route add local 198.18.8.0/24 dev lo",
		"-n "+podsSpace+" route add default via 198.18.0.1",
		"-n "+nodeSpace+" route add 198.18.8.0/24 via 198.18.0.2",
		"-n "+nodeSpace+" route add default via 198.18.0.6",
		"-n "+serversSpace+" route add default via 198.18.0.5",
		"-n "+serversSpace+" addr add "+outside+"/32 dev lo",
	)
	for i := range serverCount {
		script = append(script, "-n "+serversSpace+" addr add "+serverAddr(i)+"/32 dev lo")
	}
	for _, line := range script {
		if err := command("ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return inside(nodeSpace, "", "sysctl", "-qw", "net.ipv4.ip_forward=1")
}

// command runs a program to its end.
func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput() //nolint:gosec // our own command lines
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// inside runs a program in a namespace, with this on its standard input.
func inside(ns, stdin string, argv ...string) error {
	cmd := exec.Command("ip", append([]string{"netns", "exec", ns}, argv...)...) //nolint:gosec // our own command lines
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s in %s: %w: %s", strings.Join(argv, " "), ns, err, strings.TrimSpace(string(out)))
	}
	return nil
}

//go:build linux

package lab

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Prefix of every namespace of a lab: who finds one knows whose it is.
const Prefix = "fbstubs-"

// Segment is a network behind the router.
type Segment string

// The lab's segments.
const (
	Servers Segment = "servers" // 192.0.2.0/24, 2001:db8:2::/64
	Clients Segment = "clients" // 198.51.100.0/24, 2001:db8:51::/64
)

// gateways of each segment: of IPv4, and of IPv6.
var gateways = map[Segment][2]netip.Prefix{
	Servers: {netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8:2::1/64")},
	Clients: {netip.MustParsePrefix("198.51.100.1/24"), netip.MustParsePrefix("2001:db8:51::1/64")},
}

// gateway of an address on a segment.
func gateway(on Segment, addr netip.Addr) (netip.Prefix, error) {
	for _, g := range gateways[on] {
		if g.Contains(addr) {
			return g, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("%s does not lie in %s (%s, %s)", addr, on, gateways[on][0].Masked(), gateways[on][1].Masked())
}

// Lab is a router and the hosts behind it.
type Lab struct {
	lock   *os.File
	mu     sync.Mutex
	links  int
	hosts  map[string]*Host
	router string // its namespace
}

// lockWithin is how long another run's lab is waited for: longer than one takes.
const lockWithin = 8 * time.Minute

// New makes an empty lab, after what an earlier run left is removed.
func New() (*Lab, error) {
	lock, err := lockLab(filepath.Join(os.TempDir(), "firebreak-stubs.lock"))
	if err != nil {
		return nil, err
	}
	l := &Lab{lock: lock, hosts: map[string]*Host{}, router: Prefix + "router"}
	if err := sweep(); err != nil {
		lock.Close()
		return nil, err
	}
	if err := l.makeRouter(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func lockLab(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockWithin); ; time.Sleep(time.Second) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if time.Now().After(deadline) {
			f.Close()
			return nil, fmt.Errorf("another run has held %s for %s: end it, then try again: %w", path, lockWithin, err)
		}
	}
}

func (l *Lab) makeRouter() error {
	batch := []string{
		"netns add " + l.router,
	}
	for segment, gateway := range gateways {
		batch = append(batch,
			fmt.Sprintf("-n %s link add br-%s type bridge", l.router, segment),
			fmt.Sprintf("-n %s addr add %s dev br-%s", l.router, gateway[0], segment),
			fmt.Sprintf("-n %s addr add %s dev br-%s nodad", l.router, gateway[1], segment),
			fmt.Sprintf("-n %s link set br-%s up", l.router, segment),
		)
	}
	if err := ip(batch...); err != nil {
		return err
	}
	return run("ip", "netns", "exec", l.router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
}

// Close ends every process in the lab and removes it.
func (l *Lab) Close() {
	defer l.lock.Close() // with it goes the lock
	_ = sweep()
}

// sweep removes every lab there is, with the processes in it.
func sweep() error {
	out, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		return fmt.Errorf("cannot list network namespaces (apt-get install iproute2; run as root): %w", err)
	}
	var batch []string
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(name, Prefix) {
			continue
		}
		pids, err := exec.Command("ip", "netns", "pids", name).Output()
		if err != nil {
			return fmt.Errorf("who is in %s: %w", name, err)
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			var n int
			if _, err := fmt.Sscan(pid, &n); err == nil && n > 1 && n != os.Getpid() {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
		batch = append(batch, "netns del "+name)
	}
	return ip(batch...)
}

// ip runs lines of the ip command, each as it would be typed without its first word.
func ip(lines ...string) error {
	for _, line := range lines {
		if err := run("ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

//go:build linux

package lab

import (
	"context"
	"errors"
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

// Host is one network namespace with one address.
type Host struct {
	Name string
	Addr netip.Addr
	lab  *Lab
	on   Segment
}

// Host makes a host with an address on a segment. Its default route is the
// router: clients and servers reach each other, and nobody else.
func (l *Lab) Host(name string, on Segment, addr netip.Addr) (*Host, error) {
	if _, err := gateway(on, addr); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	l.mu.Lock()
	l.links++
	link := fmt.Sprintf("v%d", l.links)
	l.mu.Unlock()
	h := &Host{Name: name, Addr: addr, lab: l, on: on}
	ns := h.Namespace()
	err := ip(
		"netns add "+ns,
		fmt.Sprintf("link add eth0 netns %s type veth peer name %s netns %s", ns, link, l.router),
		fmt.Sprintf("-n %s link set %s master br-%s up", l.router, link, on),
		fmt.Sprintf("-n %s link set lo up", ns),
		fmt.Sprintf("-n %s link set eth0 up", ns),
	)
	if err == nil {
		err = h.Add(addr)
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Add gives the host another address, with a default route of its family.
func (h *Host) Add(addr netip.Addr) error {
	g, err := gateway(h.on, addr)
	if err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	ns, now := h.Namespace(), ""
	if addr.Is6() {
		now = " nodad" // nobody else has it, and a second matters
	}
	return ip(
		fmt.Sprintf("-n %s addr add %s/%d dev eth0%s", ns, addr, g.Bits(), now),
		fmt.Sprintf("-n %s route add default via %s", ns, g.Addr()),
	)
}

// Namespace is the host's network namespace, as ip-netns(8) knows it.
func (h *Host) Namespace() string { return Prefix + h.Name }

// enter puts the host's own files over the machine's, in the mount namespace
// that ip-netns makes for each command. A machine without nsswitch.conf needs none.
const enter = `mount --bind "$1" /etc/resolv.conf || { echo "no /etc/resolv.conf to put ours over: touch it" >&2; exit 1; }
[ ! -e /etc/nsswitch.conf ] || mount --bind "$2" /etc/nsswitch.conf
shift 2
exec "$@"`

// Files of a host that stand in for the machine's.
type Files struct {
	ResolvConf string
	NSSwitch   string
}

// WriteFiles writes a resolv.conf and an nsswitch.conf as a plain host has it.
func WriteFiles(dir, resolvConf string) (Files, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Files{}, err
	}
	f := Files{ResolvConf: filepath.Join(dir, "resolv.conf"), NSSwitch: filepath.Join(dir, "nsswitch.conf")}
	return f, errors.Join(
		os.WriteFile(f.ResolvConf, []byte(resolvConf), 0o644),
		os.WriteFile(f.NSSwitch, []byte("passwd: files\ngroup: files\nhosts: files dns\n"), 0o644),
	)
}

// promptly runs a command ahead of everything that is not of a lab: what is
// measured there are milliseconds, and builds may go on beside it. Where real-time
// scheduling is not allowed, a low niceness has to do.
var promptly = sync.OnceValue(func() []string {
	first := []string{"chrt", "--rr", "1"}
	if exec.Command(first[0], append(first[1:], "true")...).Run() == nil {
		return first
	}
	return []string{"nice", "-n", "-15"}
})

// Listens waits until a program on the host has a UDP port.
func (h *Host) Listens(port uint16) error {
	for range 100 {
		out, err := exec.Command("ip", "netns", "exec", h.Namespace(), "cat", "/proc/net/udp").Output()
		if err != nil {
			return err
		}
		if strings.Contains(string(out), fmt.Sprintf(":%04X 00000000:0000", port)) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("nothing listens on UDP port %d of %s after 5 s", port, h.Name)
}

// Process is a program that runs on a host.
type Process struct {
	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{}
}

// Start runs a program on the host, its output in a file. env comes on top of
// the test's own.
func (h *Host) Start(ctx context.Context, files Files, output string, env []string, argv ...string) (*Process, error) {
	log, err := os.Create(output)
	if err != nil {
		return nil, err
	}
	args := append([]string{"netns", "exec", h.Namespace()}, promptly()...)
	if files != (Files{}) {
		args = append(args, "sh", "-c", enter, "sh", files.ResolvConf, files.NSSwitch)
	}
	cmd := exec.CommandContext(ctx, "ip", append(args, argv...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	// A group of its own, so that what it starts ends with it; and it ends with
	// the test, however that ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("%s on %s: %w", argv[0], h.Name, err)
	}
	p := &Process{cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Running reports whether the process is still there.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Stop ends the process and what it started, and waits for it.
func (p *Process) Stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(3 * time.Second):
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.exited
	p.log.Close()
}

// Output is what the process printed so far.
func (p *Process) Output() string {
	b, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"firebreakdns.io/firebreak/test/cluster/lab/cgroup"
	"firebreakdns.io/firebreak/test/cluster/lab/spec"
)

// control is the name of the machine that runs the control plane.
const control = "control"

// binDir is where machines have the programs of the cache folder, in a folder
// per group.
const binDir = "/opt/firebreak"

// keeper is a machine that dies with this process.
type keeper struct {
	leash io.WriteCloser
	// ended is closed when the machine is gone and its control groups too.
	ended chan struct{}
}

// order says a line to the keeper.
func (k *keeper) order(words ...string) error {
	_, err := fmt.Fprintln(k.leash, strings.Join(words, " "))
	return err
}

// release lets the machine outlive this process.
func (k *keeper) release() error { return k.order(spec.Release) }

// boot starts a machine: its namespaces and file tree, but none of its
// programs, and no network yet.
func (c *Cluster) boot(ctx context.Context, name string, machine spec.Machine) (*keeper, error) {
	dir := c.machineDir(name)
	err := c.furnish(dir, &machine)
	if err != nil {
		return nil, err
	}
	machine.Hostname = name
	machine.Cgroup = path.Join(cgroupName(c.name), name)
	content, err := json.MarshalIndent(machine, "", "  ")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "machine.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log", "keeper.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()

	cmd := exec.Command(c.record.Programs["keeper"], "machine", file)
	cmd.Stderr = log
	// Ctrl-C in a terminal is for whoever started the cluster, who then takes
	// it down in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	leash, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	k := &keeper{leash: leash, ended: make(chan struct{})}
	first, err := hear(answers)
	go func() {
		_ = cmd.Wait() // the keeper's log has the reason
		close(k.ended)
	}()
	if err == nil {
		err = c.change(func(r *record) {
			m := r.Machines[name]
			m.First, m.Wired = first, false
			r.Machines[name] = m
		})
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		leash.Close()
		<-k.ended
		said, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("machine %s: %w\n%s", name, err, said)
	}
	c.mu.Lock()
	c.keepers[name] = k
	c.mu.Unlock()
	return k, nil
}

// hear waits for a keeper to say that its machine is ready.
func hear(answers io.Reader) (process, error) {
	line, err := bufio.NewReader(answers).ReadString('\n')
	if err != nil {
		return process{}, errors.New("it did not come up")
	}
	number, _ := strings.CutPrefix(strings.TrimSpace(line), spec.Ready+" ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return process{}, fmt.Errorf("its keeper said %q", line)
	}
	return processOf(pid)
}

// furnish gives a machine its disk, which survives the machine's death: the
// root of its file tree, its changes to what it sees of the host, and its logs.
func (c *Cluster) furnish(dir string, machine *spec.Machine) error {
	if err := makeDirs(dir, "root", "log", "files"); err != nil {
		return err
	}
	machine.Root = filepath.Join(dir, "root")
	for _, view := range views() {
		changes := strings.ReplaceAll(strings.Trim(view, "/"), "/", "_")
		overlay := spec.Overlay{Dir: view, Upper: filepath.Join(dir, "changes", changes), Work: filepath.Join(dir, "work", changes)}
		if err := errors.Join(os.MkdirAll(overlay.Upper, 0o755), os.MkdirAll(overlay.Work, 0o755)); err != nil {
			return err
		}
		machine.Overlays = append(machine.Overlays, overlay)
	}
	machine.Tmpfs = append(machine.Tmpfs, "/run")
	binds := []spec.Bind{{From: filepath.Join(dir, "log"), To: "/var/log"}}
	for _, g := range groups() {
		for name := range g.packages {
			binds = append(binds, spec.Bind{From: filepath.Dir(c.record.Programs[name]), To: path.Join(binDir, g.name), ReadOnly: true})
			break
		}
	}
	machine.Binds = append(binds, machine.Binds...)
	return nil
}

// views are the host's folders that a machine sees and may change for itself.
func views() []string { return []string{"/etc", "/usr/local"} }

// file writes a file that a machine sees as to, and cannot change.
func (c *Cluster) file(name, to, content string) (spec.Bind, error) {
	from := filepath.Join(c.machineDir(name), "files", strings.ReplaceAll(strings.Trim(to, "/"), "/", "_"))
	if err := os.MkdirAll(filepath.Dir(from), 0o755); err != nil {
		return spec.Bind{}, err
	}
	return spec.Bind{From: from, To: to, ReadOnly: true}, os.WriteFile(from, []byte(content), 0o644)
}

// stop kills a machine and waits until the kernel has nothing left of it.
func (c *Cluster) stop(ctx context.Context, name string) error {
	m, err := c.machine(name)
	if err != nil {
		return err
	}
	if m.First.alive() {
		// Everything in the machine goes with its first process.
		if err := syscall.Kill(m.First.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	c.mu.Lock()
	k := c.keepers[name]
	delete(c.keepers, name)
	c.mu.Unlock()
	if k != nil {
		select {
		case <-k.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		k.leash.Close()
	}
	group := path.Join(cgroupName(c.name), name)
	return errors.Join(
		cgroup.Kill(group, killLimit),
		cgroup.Remove(group, killLimit),
		c.change(func(r *record) {
			m := r.Machines[name]
			m.First, m.Wired = process{}, false
			r.Machines[name] = m
		}),
	)
}

// killLimit is how long a killed process and its control group may stay.
const killLimit = 10 * time.Second

// programPath is the file of a program of the cache folder, as machines see it.
func programPath(name string) string {
	for _, g := range groups() {
		if _, ok := g.packages[name]; ok {
			return path.Join(binDir, g.name, name)
		}
	}
	return name
}

// environment is that of a machine's programs.
func environment() []string {
	return []string{
		"PATH=" + path.Join(binDir, "containerd") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/tmp",
	}
}

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"firebreakdns.io/firebreak/test/cluster/lab/cgroup"
	"firebreakdns.io/firebreak/test/cluster/lab/spec"
)

// KillProgram kills a program of a machine, such as "kubelet" of a node or
// "kube-apiserver" of "control". The machine starts it again after a second. It
// returns when the killed process is gone.
func (c *Cluster) KillProgram(ctx context.Context, machine, program string) error {
	pid, err := c.pidOf(machine, program)
	if err != nil {
		return err
	}
	p, err := processOf(pid)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	return poll(ctx, killLimit, program+" to end", func(context.Context) error {
		if p.alive() {
			return errors.New("it is alive")
		}
		return nil
	})
}

// pidOf finds a program of a machine; the number is the host's.
func (c *Cluster) pidOf(machine, program string) (int, error) {
	// Beside the pods' groups, whose programs may have the same names.
	pids, err := cgroup.Procs(path.Join(cgroupName(c.name), machine, spec.System))
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		file, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil && filepath.Base(file) == program {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("machine %s does not run %s", machine, program)
}

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

// StopProgram kills a program of a machine, which stays down until StartProgram:
// "kube-apiserver" of "control", for one. It returns when the process is gone.
// Only the process that the machine dies with can do this.
func (c *Cluster) StopProgram(ctx context.Context, machine, program string) error {
	if _, err := c.pidOf(machine, program); err != nil {
		return err
	}
	if err := c.order(machine, spec.Stop, program); err != nil {
		return err
	}
	return poll(ctx, killLimit, program+" to end", func(context.Context) error {
		if pid, err := c.pidOf(machine, program); err == nil {
			return fmt.Errorf("process %d is alive", pid)
		}
		return nil
	})
}

// StartProgram starts a program that StopProgram has stopped, and does not wait
// until it is ready.
func (c *Cluster) StartProgram(machine, program string) error {
	return c.order(machine, spec.Start, program)
}

// order says a line to the keeper of a machine.
func (c *Cluster) order(machine string, words ...string) error {
	c.mu.Lock()
	k := c.keepers[machine]
	c.mu.Unlock()
	if k == nil {
		return fmt.Errorf("machine %s is not held by this process, or not alive", machine)
	}
	return k.order(words...)
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

package lab

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
)

// Command is a command that runs on a machine, which is a node or "control": in
// its namespaces, with its file tree, as root. It is killed with the machine,
// but is in the control groups of the caller.
func (c *Cluster) Command(ctx context.Context, machine string, args ...string) (*exec.Cmd, error) {
	m, err := c.machine(machine)
	if err != nil {
		return nil, err
	}
	if !m.First.alive() {
		return nil, fmt.Errorf("machine %s is not alive", machine)
	}
	return nsenter(ctx, m.First.PID, args...), nil
}

// command is Command for a machine that was just seen alive: that it no longer
// is shows when the command is run.
func (c *Cluster) command(ctx context.Context, machine string, args ...string) *exec.Cmd {
	cmd, err := c.Command(ctx, machine, args...)
	if err != nil {
		cmd = exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Err = err
	}
	return cmd
}

func nsenter(ctx context.Context, pid int, args ...string) *exec.Cmd {
	words := append([]string{"--target", strconv.Itoa(pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--"}, args...)
	cmd := exec.CommandContext(ctx, "nsenter", words...)
	cmd.Env = environment()
	return cmd
}

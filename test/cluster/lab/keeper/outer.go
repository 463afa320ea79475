package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"syscall"
	"time"

	"firebreakdns.io/firebreak/test/cluster/lab/cgroup"
	"firebreakdns.io/firebreak/test/cluster/lab/spec"
)

// patience is how long the kernel may take to give up a dead machine's groups.
const patience = 10 * time.Second

// outer runs a machine until it ends or its leash does.
func outer(file string, machine spec.Machine) error {
	// An owner who died does not read. Heard of, the signal kills nobody, and
	// the write fails instead: then the machine is ended in order. It is not
	// ignored, which programs would inherit.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	system := path.Join(machine.Cgroup, spec.System)
	if err := cgroup.Create(system); err != nil {
		return err
	}
	orders, toInner, err := os.Pipe()
	if err != nil {
		return err
	}
	fromInner, answers, err := os.Pipe()
	if err != nil {
		return err
	}
	inside := exec.Command("/proc/self/exe", "inside", file)
	inside.Stderr = os.Stderr
	inside.ExtraFiles = []*os.File{orders, answers}
	inside.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := inside.Start(); err != nil {
		return fmt.Errorf("starting the machine: %w", err)
	}
	orders.Close()
	answers.Close()
	// Nothing is started inside before it has heard an order, so nothing can
	// be forked outside of the group.
	err = cgroup.Join(system, inside.Process.Pid)
	if err == nil {
		err = greet(fromInner, inside.Process.Pid)
	}
	if err != nil {
		_ = inside.Process.Kill()
	} else {
		go hold(toInner, inside.Process)
	}
	died := inside.Wait()
	return errors.Join(err, died, clean(machine))
}

// greet waits until the machine has its file tree and says so to the owner.
func greet(fromInner io.Reader, pid int) error {
	line, err := bufio.NewReader(fromInner).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the machine did not come up: %w", err)
	}
	if line != spec.Ready+"\n" {
		return fmt.Errorf("the machine did not come up: it said %q", line)
	}
	_, err = fmt.Println(spec.Ready, pid)
	return err
}

// hold passes on the owner's orders, and kills the machine when the owner is
// gone and has not released it.
func hold(toInner io.Writer, machine *os.Process) {
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		if orders.Text() == spec.Release {
			return
		}
		fmt.Fprintln(toInner, orders.Text())
	}
	_ = machine.Kill()
}

// clean removes what does not go with the machine. All of its processes died
// with its first one; kill those that somebody else put into a group of it.
func clean(machine spec.Machine) error {
	if machine.HostLink != "" {
		_ = exec.Command("ip", "link", "delete", machine.HostLink).Run() // it may have gone
	}
	err := errors.Join(cgroup.Kill(machine.Cgroup, patience), cgroup.Remove(machine.Cgroup, patience))
	// The cluster's own group goes with its last machine.
	cgroup.RemoveEmpty(path.Dir(machine.Cgroup))
	return err
}

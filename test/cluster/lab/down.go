package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"firebreakdns.io/firebreak/test/cluster/lab/cgroup"
)

// Down ends the cluster and removes all that it made, logs included.
func (c *Cluster) Down() error { return c.end(context.Background(), false) }

// end is Down; it may keep the logs.
func (c *Cluster) end(ctx context.Context, keepLogs bool) error {
	c.mu.Lock()
	keepers := c.keepers
	c.keepers = map[string]*keeper{}
	c.mu.Unlock()
	for _, k := range keepers {
		// What has lost its leash dies, unless it was released.
		k.leash.Close()
	}
	return remove(ctx, filepath.Dir(c.dir), c.name, keepLogs)
}

// Down ends a cluster by its name, whoever started it and whatever is left of
// it, and removes all that it made. To take down what is not there is no error.
func Down(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	state, err := StateDir()
	if err != nil {
		return err
	}
	return remove(ctx, state, name, false)
}

// remove ends a cluster and removes it. It goes by the names that the system
// shows, not by the record, which a killed process may have left behind what is
// true: processes by the control group that they are in or the command that
// they run, the link by its name. Namespaces and mounts have no names of their
// own and go with the processes.
func remove(ctx context.Context, state, name string, keepLogs bool) error {
	group := cgroupName(name)
	dir := filepath.Join(state, name)
	err := cgroup.Kill(group, killLimit)
	err = errors.Join(err, waitKeepers(dir))
	err = errors.Join(err, cgroup.Remove(group, killLimit))
	err = errors.Join(err, removeLink(ctx, 0, linkName(name)))
	if err != nil {
		return fmt.Errorf("taking cluster %s down: %w", name, err)
	}
	unlock, err := lockState(ctx, state)
	if err != nil {
		return err
	}
	defer unlock()
	if keepLogs {
		return keepOnlyLogs(dir)
	}
	return os.RemoveAll(dir)
}

// waitKeepers waits until the keepers of a cluster's machines have ended, as
// they do when their machine has, and kills those that do not.
func waitKeepers(dir string) error {
	soft, hard := time.Now().Add(killLimit/2), time.Now().Add(killLimit)
	for {
		pids, err := keepersOf(dir)
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(hard) {
			return fmt.Errorf("keepers %v do not end", pids)
		}
		if time.Now().After(soft) {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// keepersOf finds the keepers whose machine is described in a cluster's folder.
func keepersOf(dir string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		words, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue
		}
		args := bytes.Split(words, []byte{0})
		if len(args) > 2 && filepath.Base(string(args[0])) == "keeper" && strings.HasPrefix(string(args[2]), dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// keepOnlyLogs removes a cluster's folder but for the logs of its programs.
func keepOnlyLogs(dir string) error {
	machines, err := filepath.Glob(filepath.Join(dir, "machines", "*", "*"))
	if err != nil {
		return err
	}
	entries, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range append(machines, entries...) {
		if base := filepath.Base(name); base != "log" && base != "machines" {
			errs = append(errs, os.RemoveAll(name))
		}
	}
	return errors.Join(errs...)
}

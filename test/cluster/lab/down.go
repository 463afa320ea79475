package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
	unlock, err := lockName(ctx, c.name)
	if err != nil {
		return err
	}
	defer unlock()
	state := filepath.Dir(c.dir)
	r, err := readRecord(c.dir)
	if err == nil && r.ID != c.id {
		return c.replaced()
	}
	if err != nil {
		// Somebody took it down. What is of its name now is another's.
		if other, err := elsewhere(state, c.name); err != nil || other != "" {
			return err
		}
	}
	return remove(ctx, state, c.name, keepLogs)
}

// Down ends a cluster by its name, whoever started it and whatever is left of
// it, and removes all that it made. To take down what is not there is no error,
// but one that is up and belongs to another state folder is.
func Down(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	state, err := StateDir()
	if err != nil {
		return err
	}
	unlock, err := lockName(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := ours(state, name); err != nil {
		return err
	}
	return remove(ctx, state, name, false)
}

// remove ends a cluster and removes it. It goes by the names that the system
// shows, not by the record, which a killed process may have left behind what is
// true: processes by the control group that they are in or the command that
// they run, the link by its name. Namespaces and mounts have no names of their
// own and go with the processes. The caller holds the name's lock.
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

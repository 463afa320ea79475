// Package cgroup makes, finds and removes control groups by name, on both
// versions of the interface. A name like /firebreak-test/node1 stands for a
// folder in every hierarchy of version 1, or for the one of version 2.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// root is where every Linux distribution mounts control groups.
const root = "/sys/fs/cgroup"

// hierarchies lists the folders that groups are made in: one per controller
// with version 1, root itself with version 2.
func hierarchies() ([]string, error) {
	if v2() {
		return []string{root}, nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("no control groups: %w", err)
	}
	var found []string
	for _, entry := range entries {
		dir := filepath.Join(root, entry.Name())
		// Names such as cpu,cpuacct have links beside them; one is enough.
		if entry.IsDir() && exists(filepath.Join(dir, "cgroup.procs")) {
			found = append(found, dir)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no control groups are mounted below %s", root)
	}
	return found, nil
}

// v2 says whether the machine has version 2 alone.
func v2() bool { return exists(filepath.Join(root, "cgroup.controllers")) }

// Create makes the group and its parents, ready to hold processes and groups.
func Create(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range all {
		parent := hierarchy
		for _, element := range strings.Split(strings.Trim(name, "/"), "/") {
			dir := filepath.Join(parent, element)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := prepare(parent, dir); err != nil {
				return err
			}
			parent = dir
		}
	}
	return nil
}

// prepare does what a new group needs before it takes a process.
func prepare(parent, dir string) error {
	if v2() {
		// Controllers reach a group only when its parent hands them down.
		have, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
		if err != nil {
			return err
		}
		var errs []error
		for _, controller := range strings.Fields(string(have)) {
			errs = append(errs, write(filepath.Join(parent, "cgroup.subtree_control"), "+"+controller))
		}
		return errors.Join(errs...)
	}
	// A group of the cpuset hierarchy starts without any core or memory, and
	// refuses processes.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = write(filepath.Join(dir, file), strings.TrimSpace(string(value)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Join moves a process into the group. With version 1 it stays where it is in
// the memory hierarchy: a memory limit on whoever runs the tests holds for the
// cluster's programs too.
func Join(name string, pid int) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range all {
		if filepath.Base(hierarchy) == "memory" {
			continue
		}
		if err := write(filepath.Join(hierarchy, name, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// Find lists the groups at the top whose names begin with prefix.
func Find(prefix string) ([]string, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var found []string
	for _, hierarchy := range all {
		dirs, err := filepath.Glob(filepath.Join(hierarchy, prefix+"*"))
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			if name := filepath.Base(dir); !seen[name] {
				seen[name] = true
				found = append(found, name)
			}
		}
	}
	return found, nil
}

// Procs lists the processes in the group and in all groups below it.
func Procs(name string) ([]int, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	var pids []int
	for _, hierarchy := range all {
		err := walk(filepath.Join(hierarchy, name), func(dir string) error {
			list, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			if gone(err) {
				return nil
			}
			for _, field := range strings.Fields(string(list)) {
				// 0 stands for a process that this one cannot name.
				if pid, err := strconv.Atoi(field); err == nil && pid > 0 && !seen[pid] {
					seen[pid] = true
					pids = append(pids, pid)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return pids, nil
}

// Kill ends every process in the group and below, and waits until none is left.
func Kill(name string, limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		pids, err := Procs(name)
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of control group %s are still there %s after a kill", pids, name, limit)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("killing process %d of control group %s: %w", pid, name, err)
			}
		}
	}
}

// Remove removes the group and all below it. It tries until limit, since a
// group stays busy for a moment after its last process ended.
func Remove(name string, limit time.Duration) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		var errs []error
		for _, hierarchy := range all {
			errs = append(errs, walk(filepath.Join(hierarchy, name), rmdir))
		}
		if err = errors.Join(errs...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// RemoveEmpty removes the group itself if nothing is below it.
func RemoveEmpty(name string) {
	all, _ := hierarchies()
	for _, hierarchy := range all {
		_ = rmdir(filepath.Join(hierarchy, name))
	}
}

// walk calls do for every folder below dir, the deepest first, and for dir.
func walk(dir string, do func(dir string) error) error {
	entries, err := os.ReadDir(dir)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := walk(filepath.Join(dir, entry.Name()), do); err != nil {
				return err
			}
		}
	}
	return do(dir)
}

func rmdir(dir string) error {
	if err := syscall.Rmdir(dir); err != nil && !gone(err) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// gone says that a group vanished between being listed and being read.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

func write(file, value string) error { return os.WriteFile(file, []byte(value), 0o644) }

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

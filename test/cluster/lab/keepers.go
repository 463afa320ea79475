package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// running is a keeper's process, and the folder of the cluster that it is of.
type running struct {
	pid int
	dir string
}

// keepers finds the keepers of all clusters, of whatever state folder.
func keepers() ([]running, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []running
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
		if len(args) < 3 || filepath.Base(string(args[0])) != "keeper" || string(args[1]) != "machine" {
			continue
		}
		// FOLDER/machines/MACHINE/machine.json
		dir := string(args[2])
		for range 3 {
			dir = filepath.Dir(dir)
		}
		found = append(found, running{pid, dir})
	}
	return found, nil
}

// waitKeepers waits until the keepers of a cluster's machines have ended, as
// they do when their machine has, and kills those that do not.
func waitKeepers(dir string) error {
	soft, hard := time.Now().Add(killLimit/2), time.Now().Add(killLimit)
	for {
		all, err := keepers()
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(k running) bool { return k.dir != dir })
		if len(all) == 0 {
			return nil
		}
		if time.Now().After(hard) {
			return fmt.Errorf("keepers %v do not end", all)
		}
		if time.Now().After(soft) {
			for _, k := range all {
				_ = syscall.Kill(k.pid, syscall.SIGKILL)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// elsewhere is the state folder, other than state, that a live cluster of that
// name belongs to; empty if there is none.
func elsewhere(state, name string) (string, error) {
	all, err := keepers()
	if err != nil {
		return "", err
	}
	for _, k := range all {
		if other := filepath.Dir(k.dir); filepath.Base(k.dir) == name && !same(other, state) {
			return other, nil
		}
	}
	return "", nil
}

// same says whether two names are of one folder.
func same(a, b string) bool {
	if a == b {
		return true
	}
	first, err1 := os.Stat(a)
	second, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(first, second)
}

// ours returns an error if a live cluster of that name belongs to another state
// folder: its control groups and its link have that name on the whole machine,
// so what would be done to one would be done to the other.
func ours(state, name string) error {
	other, err := elsewhere(state, name)
	if err == nil && other != "" {
		err = fmt.Errorf("cluster %s is up and belongs to another state folder, %s: use another name, or take it down with `%s=%s go run ./test/cluster down --name %s`",
			name, other, StateEnv, other, name)
	}
	return err
}

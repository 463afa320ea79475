package lab

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// record is what is known of a cluster, in a file of its folder. It is written
// before what it tells of is made, so that it never tells too little.
type record struct {
	Name string
	// ID tells the cluster from others of its name, before and after it.
	ID      string
	Index   int
	Created time.Time
	// Kubernetes is the version that the cluster runs.
	Kubernetes string
	// Owner is the process that started the cluster, and Released says that
	// the cluster outlives it.
	Owner    process
	Released bool
	// Programs are the files that the machines run.
	Programs Programs
	// Machines holds the control plane and the nodes, by name.
	Machines map[string]machineRecord
}

// machineRecord is what is known of a machine.
type machineRecord struct {
	// Number is 0 for the control plane; nodes count from 1.
	Number int
	// First is the machine's first process, as the host sees it. It is zero
	// while the machine is starting and after it was killed.
	First process
	// Wired says that the machine is on the bridge.
	Wired bool
	// Options are as they were given to AddNode.
	Options NodeOptions
}

// process names a process for longer than its number lasts.
type process struct {
	PID int
	// Start is when it started, in the kernel's own unit.
	Start uint64
}

// self is the calling process.
func self() process {
	p, _ := processOf(os.Getpid())
	return p
}

// processOf names the process that has that number now.
func processOf(pid int) (process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	// The second field is the program's name, which may hold anything; the
	// 22nd is the start.
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" {
		return process{}, fmt.Errorf("process %d has ended", pid)
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	return process{PID: pid, Start: start}, err
}

// alive says whether the process is still there.
func (p process) alive() bool {
	now, err := processOf(p.PID)
	return p.PID != 0 && err == nil && now == p
}

func recordFile(dir string) string { return filepath.Join(dir, "cluster.json") }

func readRecord(dir string) (record, error) {
	var r record
	content, err := os.ReadFile(recordFile(dir))
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	return r, err
}

// write replaces the record at once, so that no reader sees half of it.
func (r record) write(dir string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	tmp := recordFile(dir) + ".tmp"
	if err := os.WriteFile(tmp, append(content, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, recordFile(dir))
}

// claim makes the folder of a new cluster and gives it an index that no other
// cluster of the state folder has, and none that is up in another. The caller
// holds the name's lock.
func claim(ctx context.Context, state, name string) (record, string, error) {
	unlock, err := lockState(ctx, state)
	if err != nil {
		return record{}, "", err
	}
	defer unlock()
	names, err := clusterNames(state)
	if err != nil {
		return record{}, "", err
	}
	var dirs []string
	for _, other := range names {
		dirs = append(dirs, filepath.Join(state, other))
	}
	all, err := keepers()
	if err != nil {
		return record{}, "", err
	}
	for _, k := range all {
		dirs = append(dirs, k.dir)
	}
	used := map[int]bool{}
	for _, other := range dirs {
		if r, err := readRecord(other); err == nil {
			used[r.Index] = true
		}
	}
	for index := range maxClusters {
		free, err := plan{index}.free()
		if err != nil {
			return record{}, "", err
		}
		if used[index] || !free {
			continue
		}
		dir := filepath.Join(state, name)
		r := record{
			Name: name, ID: rand.Text(), Index: index, Created: time.Now(), Kubernetes: Kubernetes,
			Owner: self(), Machines: map[string]machineRecord{},
		}
		return r, dir, errors.Join(os.MkdirAll(dir, 0o755), r.write(dir))
	}
	return record{}, "", fmt.Errorf("all %d address plans are in use; take a cluster down", maxClusters)
}

// lockState keeps others from adding or removing a cluster meanwhile.
func lockState(ctx context.Context, state string) (unlock func(), err error) {
	if err := os.MkdirAll(state, 0o755); err != nil {
		return nil, err
	}
	return lockFile(ctx, filepath.Join(state, ".lock"))
}

// clusterNames lists the clusters that have a folder.
func clusterNames(state string) ([]string, error) {
	entries, err := os.ReadDir(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && checkName(entry.Name()) == nil {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

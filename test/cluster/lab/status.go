package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"firebreakdns.io/firebreak/test/cluster/lab/cgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Status is what there is of a cluster.
type Status struct {
	Name string
	// Up says that the API server answers.
	Up bool
	// Owner tells whom the cluster dies with, or that it stays until Down.
	Owner string
	// Machines has a line per machine.
	Machines []string
	// Memory is what the cluster's processes hold, in bytes: memory that
	// several share counts once.
	Memory int64
	// Left has what a cluster that is not up has left behind.
	Left []string
}

// List returns the status of all clusters, also of those that are dead and have
// left something.
func List(ctx context.Context) ([]Status, error) {
	state, err := StateDir()
	if err != nil {
		return nil, err
	}
	names, err := knownNames(state)
	if err != nil {
		return nil, err
	}
	var list []Status
	for _, name := range names {
		s, err := status(ctx, state, name)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// knownNames lists the clusters that anything shows: folders, control groups and
// links, the latter two also of other state folders.
func knownNames(state string) ([]string, error) {
	names, err := clusterNames(state)
	if err != nil {
		return nil, err
	}
	groups, err := cgroup.Find(prefix)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		names = append(names, strings.TrimPrefix(group, prefix))
	}
	links, err := filepath.Glob("/sys/class/net/" + linkPrefix + "*")
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		names = append(names, strings.TrimPrefix(filepath.Base(link), linkPrefix))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func status(ctx context.Context, state, name string) (Status, error) {
	s := Status{Name: name, Left: remains(state, name)}
	pids, err := cgroup.Procs(cgroupName(name))
	if err != nil {
		return s, err
	}
	s.Memory = memory(pids)
	home := state
	if other, err := elsewhere(state, name); err != nil {
		return s, err
	} else if other != "" {
		home = other
	}
	c, err := openIn(home, name)
	if err != nil {
		return s, nil // remains of one that never came up
	}
	s.Owner = fmt.Sprintf("dies with process %d", c.record.Owner.PID)
	if c.record.Released {
		s.Owner = "stays until down"
	}
	if home != state {
		s.Owner += fmt.Sprintf("; belongs to another state folder, %s=%s", StateEnv, home)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	ready := map[string]string{}
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	s.Up = err == nil
	for _, node := range nodes.Items {
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" {
				ready[node.Name] = ", Ready: " + string(condition.Status)
			}
		}
	}
	for machine, m := range c.record.Machines {
		line := fmt.Sprintf("%s: dead", machine)
		if m.First.alive() {
			line = fmt.Sprintf("%s: process %d", machine, m.First.PID)
		}
		s.Machines = append(s.Machines, line+ready[machine])
	}
	slices.Sort(s.Machines)
	if s.Up {
		s.Left = nil
	}
	return s, nil
}

// remains lists what there is on the machine by a cluster's name.
func remains(state, name string) []string {
	var left []string
	if exists(filepath.Join(state, name)) {
		left = append(left, "folder "+filepath.Join(state, name))
	}
	if exists("/sys/class/net/" + linkName(name)) {
		left = append(left, "link "+linkName(name))
	}
	if groups, err := cgroup.Find(prefix + name); err == nil && slices.Contains(groups, prefix+name) {
		left = append(left, "control group "+cgroupName(name))
	}
	return left
}

// memory adds up what processes hold, by their share of each page.
func memory(pids []int) int64 {
	var total int64
	for _, pid := range pids {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(content)) {
			var kilobytes int64
			if _, err := fmt.Sscanf(line, "Pss: %d kB", &kilobytes); err == nil {
				total += kilobytes << 10
			}
		}
	}
	return total
}

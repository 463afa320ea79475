package lab

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Snapshot is what a cluster could leave behind on the machine, as lines.
type Snapshot map[string]bool

// TakeSnapshot looks at the host's named network namespaces, links, addresses,
// routes, mounts, control groups, firewall rules, files in the usual folders, and those kernel settings that
// a kubelet or kube-proxy is known to change; and at every process that runs a
// program of the cache folder or is in a control group of a cluster, with its
// namespaces.
func TakeSnapshot(ctx context.Context) (Snapshot, error) {
	s := Snapshot{}
	for _, words := range [][]string{
		{"ip", "netns", "list"}, {"ip", "-o", "link"}, {"ip", "-o", "address"},
		{"ip", "-4", "route", "show", "table", "all"}, {"ip", "-6", "route", "show", "table", "all"},
		{"ip", "rule"}, {"nft", "list", "ruleset"},
	} {
		out, err := output(exec.CommandContext(ctx, words[0], words[1:]...))
		if err != nil {
			return nil, err
		}
		s.add(strings.Join(words, " "), string(out))
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	s.add("mount", string(mounts))
	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
		"net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "net/ipv6/conf/all/forwarding",
		"net/netfilter/nf_conntrack_max", "net/netfilter/nf_conntrack_tcp_timeout_established",
		"net/netfilter/nf_conntrack_tcp_timeout_close_wait", "net/bridge/bridge-nf-call-iptables",
	} {
		if value, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			s.add("sysctl", name+" = "+string(value))
		}
	}
	err = filepath.WalkDir("/sys/fs/cgroup", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			s.add("cgroup", name)
		}
		return nil // one that vanished meanwhile
	})
	if err != nil {
		return nil, err
	}
	if err := s.addFiles(); err != nil {
		return nil, err
	}
	return s, s.addProcesses()
}

// addFiles adds what there is in the folders that programs and pods like to
// write to, but for the state folder. /tmp is too busy to tell anything.
func (s Snapshot) addFiles() error {
	state, err := StateDir()
	if err != nil {
		return err
	}
	for _, dir := range []string{
		"/", "/boot", "/dev", "/dev/shm", "/etc", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/usr", "/usr/lib", "/usr/libexec",
		"/usr/local", "/usr/local/bin", "/var", "/var/cache", "/var/lib", "/var/log", "/var/spool", "/var/tmp",
	} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // not every machine has all of them
		}
		for _, entry := range entries {
			if name := filepath.Join(dir, entry.Name()); name != state {
				s.add("file", name)
			}
		}
	}
	return nil
}

func (s Snapshot) add(kind, lines string) {
	for line := range strings.Lines(lines) {
		s[kind+": "+strings.TrimSpace(line)] = true
	}
}

// addProcesses adds the processes of clusters, and the namespaces they are in.
func (s Snapshot) addProcesses() error {
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		dir := filepath.Join("/proc", entry.Name())
		program, _ := os.Readlink(filepath.Join(dir, "exe"))
		groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		if !strings.HasPrefix(program, cache+"/") && !strings.HasPrefix(program, binDir+"/") && !strings.Contains(string(groups), "/"+prefix) {
			continue
		}
		s.add("process", entry.Name()+" "+program)
		for _, kind := range []string{"mnt", "net", "pid", "uts", "ipc"} {
			if id, err := os.Readlink(filepath.Join(dir, "ns", kind)); err == nil {
				s.add("namespace", id)
			}
		}
	}
	return nil
}

// Diff lists what is in one of two snapshots only: "+" is new in s, "-" is gone.
func (s Snapshot) Diff(before Snapshot) []string {
	var diff []string
	for line := range s {
		if !before[line] {
			diff = append(diff, "+ "+line)
		}
	}
	for line := range before {
		if !s[line] {
			diff = append(diff, "- "+line)
		}
	}
	slices.Sort(diff)
	return diff
}

// Of keeps the lines that are about the cluster of that name.
func (s Snapshot) Of(name string) Snapshot {
	state, _ := StateDir()
	kept := maps.Clone(s)
	maps.DeleteFunc(kept, func(line string, _ bool) bool {
		for _, mark := range []string{linkName(name), prefix + name, filepath.Join(state, name)} {
			if strings.Contains(line, mark) {
				return false
			}
		}
		return true
	})
	return kept
}

// String is for messages.
func (s Snapshot) String() string { return fmt.Sprintf("snapshot of %d lines", len(s)) }

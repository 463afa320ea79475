package main

import (
	"embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"firebreakdns.io/firebreak/test/bench/program"

	"golang.org/x/sys/unix"
)

//go:embed native/*.c
var native embed.FS

// tools are the programs of a run, and where they may run.
type tools struct {
	dir                       string
	echo, load, coredns, self string
	names                     string   // the file of names
	plugins                   []string // of coredns
	serverCPUs, clientCPU     func(workers int) string
}

// prepare builds what a run needs.
func prepare(o *options, progress io.Writer) (*tools, error) {
	dir, err := program.Folder("firebreak-bench")
	if err != nil {
		return nil, err
	}
	// Servers that give up root still read their files.
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // no secret in it
		return nil, err
	}
	t := &tools{
		dir: dir, echo: filepath.Join(dir, "echo"), load: filepath.Join(dir, "load"),
		coredns: o.coredns, names: filepath.Join(dir, "names"),
	}
	if err := t.build(progress); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return t, nil
}

func (t *tools) build(progress io.Writer) (err error) {
	if t.self, err = os.Executable(); err != nil {
		return err
	}
	for source, to := range map[string]string{"native/echo.c": t.echo, "native/load.c": t.load} {
		text, err := native.ReadFile(source)
		if err != nil {
			return err
		}
		path := filepath.Join(t.dir, filepath.Base(source))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
		if err := program.BuildC(path, to); err != nil {
			return err
		}
	}
	if t.coredns == "" {
		fmt.Fprintln(progress, "Building coredns from this tree")
		t.coredns = filepath.Join(t.dir, "coredns")
		if err := program.BuildGo("./build/coredns", t.coredns); err != nil {
			return err
		}
	}
	out, err := exec.Command(t.coredns, "-plugins").Output() //nolint:gosec // just built, or named by the caller
	if err != nil {
		return fmt.Errorf("%s -plugins: %w", t.coredns, err)
	}
	t.plugins = strings.Fields(string(out))
	if err := t.placeCPUs(); err != nil {
		return err
	}
	return writeNames(t.names)
}

// placeCPUs gives the servers the first CPUs and the load client one that they
// do not have, as far as there are so many.
func (t *tools) placeCPUs() error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return err
	}
	var cpus []string
	for i := 0; i < 8*len(set)*8 && len(cpus) < set.Count(); i++ {
		if set.IsSet(i) {
			cpus = append(cpus, fmt.Sprint(i))
		}
	}
	t.serverCPUs = func(workers int) string { return strings.Join(cpus[:min(workers, len(cpus))], ",") }
	t.clientCPU = func(workers int) string { return cpus[min(workers, len(cpus)-1)] }
	return nil
}

// missing says why a server cannot be measured here; "" if it can.
func (t *tools) missing(s *server) string {
	for _, need := range s.needs {
		if !slices.Contains(t.plugins, need) {
			return "this build of coredns has no plugin " + need
		}
	}
	if s.binary != "" {
		if _, err := exec.LookPath(s.binary); err != nil {
			return "not installed: apt-get install " + s.pkg + ", or -install"
		}
	}
	return ""
}

// versionOf is the first line with which a server says what it is.
func (t *tools) versionOf(s *server) string {
	argv := s.version
	if len(argv) == 0 {
		if s.kind == floorKind {
			return ""
		}
		argv = []string{t.coredns, "-version"}
	}
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput() //nolint:gosec // from our own list
	if err != nil && len(out) == 0 {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return strings.TrimSpace(line)
}

// install brings the chosen servers that are missing, without starting the
// services that come with them: they are started by us, with our own configuration.
func install(o *options, progress io.Writer) error {
	var packages []string
	for _, name := range o.servers {
		if s := serverNamed(name); s.binary != "" {
			if _, err := exec.LookPath(s.binary); err != nil {
				packages = append(packages, s.pkg)
			}
		}
	}
	if _, err := exec.LookPath("dnsperf"); err != nil && slices.Contains(o.works, "dnsperf") {
		packages = append(packages, "dnsperf")
	}
	if len(packages) == 0 {
		return nil
	}
	// Debian's way to keep packages from starting services.
	const policy = "/usr/sbin/policy-rc.d"
	if _, err := os.Stat(policy); os.IsNotExist(err) {
		if err := os.WriteFile(policy, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil { //nolint:gosec // executed by package scripts
			return err
		}
		defer os.Remove(policy)
	}
	for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-q", "-y", "--no-install-recommends"}, packages...)} {
		cmd := exec.Command("apt-get", args...) //nolint:gosec // from our own list
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		fmt.Fprintln(progress, "apt-get", strings.Join(args, " "))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}

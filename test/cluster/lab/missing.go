package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// Packages are the Debian packages that a cluster needs, but for Go itself.
func Packages() []string {
	packages := []string{}
	for _, pkg := range needed() {
		packages = append(packages, pkg)
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// needed maps the programs that a cluster uses to the Debian packages that have
// them.
func needed() map[string]string {
	return map[string]string{
		"runc":      "runc",       // containerd starts containers with it
		"nft":       "nftables",   // kube-proxy's rules
		"conntrack": "conntrack",  // kube-proxy, for stale UDP flows
		"ip":        "iproute2",   // links and addresses
		"nsenter":   "util-linux", // commands on machines
		"mount":     "mount",      // the kubelet's volumes
		"dpkg-deb":  "dpkg",       // the client image
		"apt-get":   "apt",        // the client image
		"musl-gcc":  "musl-tools", // the client image
	}
}

// errNotRoot is the error of NeedRoot.
var errNotRoot = errors.New("a cluster needs root, which makes its namespaces and control groups and alone sees them: run this as root, with sudo for one")

// NeedRoot returns an error unless the caller is root.
func NeedRoot() error {
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	return nil
}

// Missing returns nil if this machine can run a cluster, and else an error that
// says what it lacks and what to do.
func Missing() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a cluster needs Linux, and this is %s", runtime.GOOS)
	}
	if err := NeedRoot(); err != nil {
		return err
	}
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("a cluster needs the go command, to build its programs")
	}
	var programs, packages []string
	for program, pkg := range needed() {
		if _, err := exec.LookPath(program); err != nil {
			programs, packages = append(programs, program), append(packages, pkg)
		}
	}
	if len(programs) > 0 {
		slices.Sort(programs)
		slices.Sort(packages)
		return fmt.Errorf("a cluster needs %s: apt-get install -y --no-install-recommends %s",
			strings.Join(programs, ", "), strings.Join(slices.Compact(packages), " "))
	}
	return nil
}

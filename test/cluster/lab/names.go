package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// StateEnv names the environment variable that moves the state folder.
const StateEnv = "FIREBREAK_CLUSTER_STATE"

// prefix begins the name of everything that a cluster makes outside of its
// namespaces: its control groups and its one link on the host.
const prefix = "firebreak-"

// linkPrefix is prefix for links, whose names have at most 15 characters.
const linkPrefix = "fb-"

// checkName says whether a cluster can have that name: all that it makes is
// called after it, and links allow no more.
func checkName(name string) error {
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?$`).MatchString(name) {
		return fmt.Errorf("cluster name %q: use at most 12 small letters, digits and inner dashes", name)
	}
	return nil
}

// StateDir is the folder that has a folder for each cluster that is up, or was
// not taken down: $FIREBREAK_CLUSTER_STATE, or /var/lib/firebreak-cluster. Its
// file system must be one that overlayfs can write to, such as ext4 or xfs.
func StateDir() (string, error) {
	dir := os.Getenv(StateEnv)
	if dir == "" {
		return "/var/lib/firebreak-cluster", nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real := resolve(dir)
	for _, shown := range []string{"/etc/", "/usr/", "/bin/", "/sbin/", "/lib/", "/dev/", "/sys/", "/proc/"} {
		if strings.HasPrefix(real+"/", shown) {
			return "", fmt.Errorf("%s=%s: nodes are shown the host's %s, and would read the cluster's keys there; name a folder elsewhere", StateEnv, dir, shown)
		}
	}
	return dir, nil
}

// resolve follows the links in a path, of which the end may not exist yet.
func resolve(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil || dir == "/" {
		return real
	}
	return filepath.Join(resolve(filepath.Dir(dir)), filepath.Base(dir))
}

func cgroupName(cluster string) string { return "/" + prefix + cluster }

func linkName(cluster string) string { return linkPrefix + cluster }

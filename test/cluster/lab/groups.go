package lab

import (
	"embed"
	"strings"
)

// pins holds, per group, the go.mod and go.sum that its programs are built
// from. They cannot be called go.mod here: a folder with a go.mod is another
// module, and could not be embedded.
//
//go:embed programs/*.mod programs/*.sum
var pins embed.FS

// group is a set of programs that come from one module and are built together.
type group struct {
	// name is also the name of the group's files in programs/.
	name string
	// module and version are the Go module that has the programs.
	module, version string
	// packages are the main packages to build, each named after the program
	// it becomes.
	packages map[string]string
	// staging says that the module replaces other modules by folders of its
	// own, as k8s.io/kubernetes does with k8s.io/api and its like. Replaces do
	// not reach through to whoever requires the module, so pin names a
	// published version for each.
	staging bool
	// tags and ldflags go to go build.
	tags, ldflags string
}

// groups lists what is built, the short ones first, so that a mistake in the
// set-up shows early.
func groups() []group {
	const strip = "-s -w"
	major, minor, _ := strings.Cut(Kubernetes, ".")
	minor, _, _ = strings.Cut(minor, ".")
	version := "k8s.io/component-base/version."
	return []group{
		{
			name: "etcd", module: "go.etcd.io/etcd/server/v3", version: "v" + Etcd,
			packages: map[string]string{"etcd": "go.etcd.io/etcd/server/v3"},
			ldflags:  strip,
		},
		{
			name: "cni", module: "github.com/containernetworking/plugins", version: "v" + CNI,
			packages: map[string]string{
				"ptp":        "github.com/containernetworking/plugins/plugins/main/ptp",
				"loopback":   "github.com/containernetworking/plugins/plugins/main/loopback",
				"host-local": "github.com/containernetworking/plugins/plugins/ipam/host-local",
				"portmap":    "github.com/containernetworking/plugins/plugins/meta/portmap",
			},
			ldflags: strip,
		},
		{
			name: "containerd", module: "github.com/containerd/containerd/v2", version: "v" + Containerd,
			packages: map[string]string{
				"containerd":              "github.com/containerd/containerd/v2/cmd/containerd",
				"containerd-shim-runc-v2": "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
				"ctr":                     "github.com/containerd/containerd/v2/cmd/ctr",
			},
			tags:    "no_btrfs no_devmapper no_zfs no_aufs",
			ldflags: strip + " -X github.com/containerd/containerd/v2/version.Version=v" + Containerd,
		},
		{
			name: "kube", module: "k8s.io/kubernetes", version: "v" + Kubernetes, staging: true,
			packages: map[string]string{
				"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
				"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
				"kube-scheduler":          "k8s.io/kubernetes/cmd/kube-scheduler",
				"kubelet":                 "k8s.io/kubernetes/cmd/kubelet",
				"kube-proxy":              "k8s.io/kubernetes/cmd/kube-proxy",
			},
			// Without these, the programs report v0.0.0-master, which clients
			// that compare versions cannot parse.
			ldflags: strip + " -X " + version + "gitVersion=v" + Kubernetes +
				" -X " + version + "gitMajor=" + major + " -X " + version + "gitMinor=" + minor +
				" -X " + version + "gitTreeState=clean",
		},
	}
}

// tools lists what tests run beside a cluster. It is built when it is asked for.
func tools() []group {
	return []group{helm()}
}

func helm() group {
	return group{
		name: "helm", module: "helm.sh/helm/v4", version: "v" + HelmVersion,
		packages: map[string]string{"helm": "helm.sh/helm/v4/cmd/helm"},
		ldflags:  "-s -w -X helm.sh/helm/v4/internal/version.version=v" + HelmVersion,
	}
}

// allGroups lists whatever is pinned.
func allGroups() []group { return append(groups(), tools()...) }

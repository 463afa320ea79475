package lab

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
)

// Where a node has its configuration.
const (
	kubeletFile    = "/etc/kubelet.json"
	containerdFile = "/etc/containerd.toml"
	containerdSock = "/run/containerd/containerd.sock"
	// By default it is below /usr, which is the host's.
	volumePlugins = "/var/lib/volumeplugins"
)

// kubeletConfig is a kubelet's configuration: the defaults of Kubernetes, but
// for what the machine or the harness needs otherwise.
func (c *Cluster) kubeletConfig(name string, options NodeOptions) (string, error) {
	config := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + containerdSock,
		"clusterDNS":               []string{c.plan.dns4().String()},
		"clusterDomain":            "cluster.local",
		"resolvConf":               "/etc/resolv.conf",
		"volumePluginDir":          volumePlugins,
		"tlsCertFile":              pkiDir + "/kubelet.crt",
		"tlsPrivateKeyFile":        pkiDir + "/kubelet.key",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": pkiDir + "/ca.crt"},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		// All pods of a node below a group of the cluster's name; there is no
		// systemd to ask; and version 1 of control groups will do.
		"cgroupRoot":   path.Join(cgroupName(c.name), name),
		"cgroupDriver": "cgroupfs",
		"failCgroupV1": false,
		"failSwapOn":   false,
		// The disk is that of whoever runs the tests, who may like it full.
		"evictionHard":                map[string]string{"memory.available": "50Mi"},
		"imageGCHighThresholdPercent": 100,
	}
	if len(options.Taints) > 0 {
		config["registerWithTaints"] = options.Taints
	}
	maps.Copy(config, options.Kubelet)
	content, err := json.MarshalIndent(config, "", "  ")
	return string(content), err
}

// kernelTunables stand before settings of the whole kernel, with the values
// that a kubelet wants: else it would change them for the host.
func kernelTunables() map[string]string {
	return map[string]string{
		"/proc/sys/vm/overcommit_memory":      "1\n",
		"/proc/sys/vm/panic_on_oom":           "0\n",
		"/proc/sys/kernel/panic":              "10\n",
		"/proc/sys/kernel/panic_on_oops":      "1\n",
		"/proc/sys/kernel/keys/root_maxkeys":  "1000000\n",
		"/proc/sys/kernel/keys/root_maxbytes": "25000000\n",
	}
}

// containerdConfig is the same on all nodes, since each has its own file tree.
const containerdConfig = `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "` + containerdSock + `"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "` + pauseRef + `"

[plugins."io.containerd.cri.v1.runtime"]
# A container's score may not be below the runtime's own: to lower it needs
# CAP_SYS_RESOURCE, which not every machine grants.
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/opt/cni/bin"]
conf_dir = "/etc/cni/net.d"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
`

// joinLabels writes labels as the kubelet's flag has them.
func joinLabels(labels map[string]string) string {
	var list []string
	for key, value := range labels {
		list = append(list, key+"="+value)
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

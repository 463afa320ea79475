package lab

// The versions of everything a cluster is made of. To move to another one,
// change the constant and run `go run ./test/cluster pin`: it resolves the
// modules anew and rewrites programs/*.mod and programs/*.sum, which are what
// is built. TestPinsMatchVersions fails while the two disagree.
const (
	// Kubernetes is the version of the API server, the controller manager,
	// the scheduler, the kubelet and kube-proxy, without the "v".
	Kubernetes = "1.37.2"
	// Etcd is the version of etcd, without the "v".
	Etcd = "3.7.3"
	// Containerd is the version of containerd, its shim and ctr, without the "v".
	Containerd = "2.3.7"
	// CNI is the version of the CNI reference plugins, without the "v".
	CNI = "1.10.0"
	// HelmVersion is the version of helm, which tests of the chart run and no
	// cluster needs, without the "v".
	HelmVersion = "4.3.2"
)

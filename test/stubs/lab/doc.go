// Package lab makes hosts out of network namespaces: servers on one segment,
// clients on another, and between them a router that can also be a Service as
// kube-proxy makes one. Nothing of it reaches the machine's own network, so
// addresses are those that are reserved for documentation.
//
// It needs root. What a run leaves behind when it is killed, the next one
// removes: namespaces carry the lab's prefix, and one run at a time has the lock.
package lab

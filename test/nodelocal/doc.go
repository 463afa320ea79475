// Package nodelocal holds the tests of the node's addresses as they are on a node:
// the real server, real links and rules, in network namespaces that the tests make. A
// node is one namespace, its pods are others on a bridge, cluster DNS is one more, and
// between them stands a Service as kube-proxy makes it: an address that nftables
// translates. It needs root, and says so where there is none.
package nodelocal

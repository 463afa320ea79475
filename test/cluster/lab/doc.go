// Package lab runs a real Kubernetes on one machine, for tests.
//
// Its programs are built once, from Go modules pinned in programs/, into a
// cache folder. A cluster is a machine for the control plane and one per node.
// A machine is a process in process, mount, network, host name and IPC
// namespaces of its own (keeper/) that runs a machine's programs and dies with
// its keeper, which dies with whoever holds its leash: the test. So the kernel
// itself takes away the processes, mounts and links of a cluster, however it
// ends. What has a name outside of the machines is called after the cluster:
// its control groups (/firebreak-NAME), the host's link (fb-NAME) and its
// folder in the state folder. Down, and the next Up, find those by that name.
// All machines and the host are on one bridge, in the control plane's machine;
// pods are routed, of both IP families. What runs in a cluster runs as it would
// in one made by kubeadm: nothing but the test itself is an administrator.
package lab

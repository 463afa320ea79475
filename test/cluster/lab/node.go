package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"firebreakdns.io/firebreak/test/cluster/lab/spec"
)

// NodeOptions is what a node may have that others have not.
type NodeOptions struct {
	// Labels are put on the node by its own kubelet, so they cannot be of the
	// kinds that NodeRestriction keeps from kubelets.
	Labels map[string]string
	// Taints are there from the node's first moment.
	Taints []corev1.Taint
	// Kubelet is merged into the kubelet's configuration: names and values as
	// in kubelet.config.k8s.io/v1beta1.
	Kubelet map[string]any
}

// AddNode adds a node and returns its name when it is Ready, which takes about
// 15 s.
func (c *Cluster) AddNode(ctx context.Context, options NodeOptions) (string, error) {
	name, err := c.reserveNode(options)
	if err != nil {
		return "", err
	}
	if err := c.makeNodePKI(name); err != nil {
		return "", err
	}
	ready := make(chan struct{})
	close(ready)
	return name, c.bootNode(ctx, name, ready)
}

// reserveNode writes the record of a node to come, with the next free number.
func (c *Cluster) reserveNode(options NodeOptions) (string, error) {
	name := ""
	err := c.change(func(r *record) {
		used := map[int]bool{}
		for _, m := range r.Machines {
			used[m.Number] = true
		}
		for number := 1; number <= maxNodes; number++ {
			if !used[number] {
				name = fmt.Sprintf("node%d", number)
				r.Machines[name] = machineRecord{Number: number, Options: options}
				return
			}
		}
	})
	if err == nil && name == "" {
		err = fmt.Errorf("cluster %s has %d nodes, which is the limit of its address plan", c.name, maxNodes)
	}
	return name, err
}

// KillNode makes a node die as a machine does: its link goes down, so that no
// connection is closed, and its processes are killed. It returns when nothing
// is left of it but its disk; the cluster has not noticed yet.
func (c *Cluster) KillNode(ctx context.Context, name string) error {
	m, err := c.node(name)
	if err != nil {
		return err
	}
	if !m.First.alive() {
		return fmt.Errorf("node %s is dead already", name)
	}
	head, err := c.machine(control)
	if err != nil {
		return err
	}
	if err := ipBatch(ctx, head.First.PID, "link set "+name+" down"); err != nil {
		return err
	}
	// The kernel goes on to close the connections of dead processes, and keeps
	// the network namespace as long as nobody answers. Without a link that
	// changes nothing for others, so let it give up soon.
	if _, err := output(inNet(ctx, m.First.PID, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/tcp_orphan_retries")); err != nil {
		return err
	}
	if err := c.stop(ctx, name); err != nil {
		return err
	}
	// The link has the node's name, and would go with the namespace only.
	return removeLink(ctx, head.First.PID, name)
}

// ReviveNode switches a killed node on again, with the disk that it had, and
// returns when it is Ready.
func (c *Cluster) ReviveNode(ctx context.Context, name string) error {
	m, err := c.node(name)
	if err != nil {
		return err
	}
	if m.First.alive() {
		return fmt.Errorf("node %s is alive", name)
	}
	ready := make(chan struct{})
	close(ready)
	return c.bootNode(ctx, name, ready)
}

// RemoveNode kills a node and removes it from the cluster for good.
func (c *Cluster) RemoveNode(ctx context.Context, name string) error {
	m, err := c.node(name)
	if err != nil {
		return err
	}
	if m.First.alive() {
		if err := c.KillNode(ctx, name); err != nil {
			return err
		}
	}
	return errors.Join(
		c.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}),
		c.change(func(r *record) { delete(r.Machines, name) }),
		os.RemoveAll(c.machineDir(name)),
	)
}

// node looks a machine up that is a node.
func (c *Cluster) node(name string) (machineRecord, error) {
	m, err := c.machine(name)
	if err == nil && m.Number == 0 {
		err = fmt.Errorf("machine %s is not a node", name)
	}
	return m, err
}

// bootNode boots a node's machine and returns when the node is Ready. The
// kubelet starts when api is closed.
func (c *Cluster) bootNode(ctx context.Context, name string, api <-chan struct{}) error {
	m, err := c.machine(name)
	if err != nil {
		return err
	}
	machine, err := c.nodeMachine(name, m)
	if err != nil {
		return err
	}
	k, err := c.boot(ctx, name, machine)
	if err != nil {
		return err
	}
	m, err = c.machine(name)
	if err != nil {
		return err
	}
	head, err := c.machine(control)
	if err != nil {
		return err
	}
	if err := c.wireNode(ctx, name, m.Number, m.First.PID, head.First.PID); err != nil {
		return err
	}
	if err := c.route(ctx); err != nil {
		return err
	}
	if err := k.order(spec.Start, "containerd"); err != nil {
		return err
	}
	// Before the first pod can come: an image that is missing then is looked
	// for again only after a while.
	if err := c.loadAll(ctx, name); err != nil {
		return err
	}
	select {
	case <-api:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	began := time.Now()
	if err := k.order(spec.Start, "kubelet"); err != nil {
		return err
	}
	if err := c.waitRegistered(ctx, name, m); err != nil {
		return err
	}
	// It looks for its node once, and waits long when that is not there.
	if err := k.order(spec.Start, "kube-proxy"); err != nil {
		return err
	}
	if err := c.waitReady(ctx, name, began); err != nil {
		return err
	}
	return c.hand(k)
}

// hand lets a machine outlive this process if the cluster does, or if this
// process only helps the one that the cluster belongs to.
func (c *Cluster) hand(k *keeper) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record.Released || c.record.Owner != self() {
		return k.release()
	}
	return nil
}

// makeNodePKI makes what a node shows others: its kubelet's and kube-proxy's
// certificates.
func (c *Cluster) makeNodePKI(name string) error {
	m, err := c.machine(name)
	if err != nil {
		return err
	}
	ca, err := loadAuthority(filepath.Join(c.dir, "pki"), "ca")
	if err != nil {
		return err
	}
	dir := filepath.Join(c.machineDir(name), "pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	serving, err := ca.server("system:node:"+name, []string{name},
		[]net.IP{c.plan.node4(m.Number).AsSlice(), c.plan.node6(m.Number).AsSlice()})
	return errors.Join(err,
		os.WriteFile(filepath.Join(dir, "ca.crt"), ca.certPEM, 0o644),
		serving.save(dir, "kubelet"),
		c.saveUser(ca, filepath.Join(dir, "kubelet.conf"), "system:node:"+name, "system:nodes"),
		c.saveUser(ca, filepath.Join(dir, "kube-proxy.conf"), "system:kube-proxy"),
	)
}

// nodeMachine describes a node.
func (c *Cluster) nodeMachine(name string, m machineRecord) (spec.Machine, error) {
	kubelet, err := c.kubeletConfig(name, m.Options)
	if err != nil {
		return spec.Machine{}, err
	}
	network, err := c.cniConfig(m.Number)
	if err != nil {
		return spec.Machine{}, err
	}
	binds := []spec.Bind{
		{From: filepath.Dir(c.record.Programs["ptp"]), To: "/opt/cni/bin", ReadOnly: true},
		{From: filepath.Join(c.machineDir(name), "pki"), To: pkiDir, ReadOnly: true},
	}
	files := map[string]string{
		kubeletFile:                       kubelet,
		containerdFile:                    containerdConfig,
		"/etc/cni/net.d/10-pods.conflist": network,
		// What the host asks for names is none of a pod's business.
		"/etc/resolv.conf": "# no server: pods ask the cluster's\n",
	}
	maps.Copy(files, kernelTunables())
	for to, content := range files {
		bind, err := c.file(name, to, content)
		if err != nil {
			return spec.Machine{}, err
		}
		binds = append(binds, bind)
	}
	addresses := c.plan.node4(m.Number).String() + "," + c.plan.node6(m.Number).String()
	return spec.Machine{
		Binds: binds, Sysctls: netSysctls(),
		Programs: complete([]spec.Program{
			{Name: "containerd", Args: []string{"--config", containerdFile}},
			{Name: "kubelet", Args: []string{
				"--config=" + kubeletFile, "--kubeconfig=" + pkiDir + "/kubelet.conf",
				"--hostname-override=" + name, "--node-ip=" + addresses,
				"--node-labels=" + joinLabels(m.Options.Labels),
			}},
			{Name: "kube-proxy", Args: []string{
				"--proxy-mode=nftables", "--kubeconfig=" + pkiDir + "/kube-proxy.conf", "--hostname-override=" + name,
				"--cluster-cidr=" + c.plan.pods4().String() + "," + c.plan.pods6().String(),
				// The table's size is the whole machine's, not a namespace's.
				"--conntrack-max-per-core=0",
			}},
		}),
	}, nil
}

// cniConfig gives a node's pods their addresses: a link each, routed, as many
// network plugins do it.
func (c *Cluster) cniConfig(number int) (string, error) {
	type object = map[string]any
	subnet := func(s fmt.Stringer) []object { return []object{{"subnet": s.String()}} }
	content, err := json.MarshalIndent(object{
		"cniVersion": "1.0.0", "name": "pods",
		"plugins": []object{
			{
				"type": "ptp", "ipMasq": false,
				"ipam": object{
					"type": "host-local",
					// Not on the disk: no pod outlives its machine.
					"dataDir": "/run/cni/addresses",
					"ranges":  [][]object{subnet(c.plan.nodePods4(number)), subnet(c.plan.nodePods6(number))},
					"routes":  []object{{"dst": "0.0.0.0/0"}, {"dst": "::/0"}},
				},
			},
			{"type": "portmap", "backend": "nftables", "capabilities": object{"portMappings": true}},
		},
	}, "", "  ")
	return string(content), err
}

// waitRegistered waits until a node's kubelet has told the API server of it,
// and does a cloud's part: it says which addresses the node's pods have.
func (c *Cluster) waitRegistered(ctx context.Context, name string, m machineRecord) error {
	var node *corev1.Node
	err := poll(ctx, time.Minute, "node "+name+" to register", func(ctx context.Context) (err error) {
		node, err = c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if err != nil || len(node.Spec.PodCIDRs) > 0 {
		return err
	}
	v4, v6 := c.plan.nodePods4(m.Number).String(), c.plan.nodePods6(m.Number).String()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"podCIDR": v4, "podCIDRs": []string{v4, v6}}})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

// waitReady waits until a node is Ready and takes pods, by a word of its
// kubelet that is newer than began.
func (c *Cluster) waitReady(ctx context.Context, name string, began time.Time) error {
	// Times in the API are whole seconds.
	began = began.Truncate(time.Second)
	return poll(ctx, 2*time.Minute, "node "+name+" to be Ready", func(ctx context.Context) error {
		node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
				return fmt.Errorf("it has the taint %s", taint.Key)
			}
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type != corev1.NodeReady {
				continue
			}
			if condition.Status == corev1.ConditionTrue && !condition.LastHeartbeatTime.Time.Before(began) {
				return nil
			}
			return fmt.Errorf("it is not: %s", condition.Message)
		}
		return errors.New("it has no condition yet")
	})
}

package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"firebreakdns.io/firebreak/test/cluster/lab"
)

const (
	corednsRef = "localhost/coredns:test"
	askerRef   = "localhost/asker:1"

	// Where pods ask their node's cache: ours, and NodeLocal's Corefile beside it.
	oursAddress      = "169.254.20.10"
	nodeLocalAddress = "169.254.20.11"
	// metricsPort is where ours is scraped, at the node's address.
	metricsPort = 9253
	// cacheDir is on the node's disk, with the control socket and the endpoints
	// that were known last.
	cacheDir = "/var/lib/firebreak"

	clusterDNS = "coredns"
	system     = metav1.NamespaceSystem
)

// nodeCaches is a cluster with cluster DNS and a cache on every node.
type nodeCaches struct {
	*world
	ns string // of Services whose names are held, and of those who ask
	// slices is what the API server has said of cluster DNS's endpoints.
	slices *sliceHistory
	// askers are the pods that ask, and checks what is held of it in the end.
	askers []*corev1.Pod
	checks []check
}

// startNodeCaches starts a cluster with three nodes, cluster DNS as its pods know
// it, and both caches on every node.
func startNodeCaches(t *testing.T) *nodeCaches {
	t.Helper()
	pictures := images(t)
	for ref, pkg := range map[string]string{corednsRef: "build/coredns", askerRef: "test/cluster/asker"} {
		file, err := lab.Compile(t.Context(), t.TempDir(), "firebreakdns.io/firebreak/"+pkg)
		if err != nil {
			t.Fatal(err)
		}
		pictures = append(pictures, lab.Binary(ref, file))
	}
	n := &nodeCaches{world: &world{lab.Start(t, lab.Options{Nodes: 3, Images: pictures})}}
	for _, node := range nodeNames {
		n.addresses(t, node)
	}
	n.clusterDNS(t)
	n.slices = watchSlices(t, n.world)
	n.cache(t, "node-cache", oursCorefile(n.DNSAddress()), oursAddress)
	n.cache(t, "nodelocal", nodeLocalCorefile(n.DNSAddress()), nodeLocalAddress)
	n.ns = n.namespace(t)
	n.services(t)
	for _, name := range []string{"node-cache", "nodelocal"} {
		eventually(t, time.Minute, name+" on every node", func(ctx context.Context) error {
			set, err := n.client().AppsV1().DaemonSets(system).Get(ctx, name, metav1.GetOptions{})
			if err == nil && set.Status.NumberReady != int32(len(nodeNames)) {
				err = fmt.Errorf("%d are ready", set.Status.NumberReady)
			}
			return err
		})
	}
	n.scaled(t, 2)
	n.startAskers(t)
	return n
}

var nodeNames = []string{"node1", "node2", "node3"}

// addresses gives a node the addresses that only its own pods can reach.
func (n *nodeCaches) addresses(t *testing.T, node string) {
	t.Helper()
	for _, address := range []string{oursAddress, nodeLocalAddress} {
		cmd, err := n.Command(t.Context(), node, "ip", "address", "add", address+"/32", "dev", "lo")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", cmd, err, out)
		}
	}
}

// clusterDNSCorefile is kubeadm's, but for the world: there is no way out.
const clusterDNSCorefile = `.:53 {
    errors
    health {
        lameduck 1s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        ttl 5
    }
    prometheus :9153
    reload
    loadbalance
}
`

// oursCorefile asks the pods of cluster DNS themselves.
func oursCorefile(service string) string {
	return fmt.Sprintf(`cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {
    bind %[1]s
    errors
    prometheus {$HOST_IP}:%[2]d
    ready %[1]s:8181
    control unix://%[3]s/control.sock
    clients
    drill
    nodecache
    hedge . kubernetes kube-dns.kube-system {
        fallback %[4]s
        snapshot %[3]s/endpoints.json
    }
}
`, oursAddress, metricsPort, cacheDir, service)
}

// nodeLocalCorefile is the addon's, but for the addresses and the world.
func nodeLocalCorefile(service string) string {
	block := func(zone, cache string) string {
		return fmt.Sprintf(`%s:53 {
    errors
%s    reload
    loop
    bind %s
    forward . %s {
        force_tcp
    }
    ready %[3]s:8181
}
`, zone, cache, nodeLocalAddress, service)
	}
	return block("cluster.local", "    cache {\n        success 9984 30\n        denial 9984 5\n    }\n") +
		block("in-addr.arpa", "    cache 30\n") + block("ip6.arpa", "    cache 30\n")
}

// What hedge needs, as its manual has it.
func hedgeEverywhere() []rbacv1.PolicyRule { return []rbacv1.PolicyRule{may("get", "", "nodes")} }
func hedgeHere() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{may("list watch", "discovery.k8s.io", "endpointslices")}
}

// corefile makes a ConfigMap of a Corefile.
func (n *nodeCaches) corefile(t *testing.T, name, text string) {
	t.Helper()
	_, err := n.client().CoreV1().ConfigMaps(system).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"Corefile": text},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// dnsSpec is a pod of our server with the Corefile of that name.
func dnsSpec(name string) corev1.PodSpec {
	grace := int64(30)
	root, no := int64(0), false
	return corev1.PodSpec{
		ServiceAccountName: name, TerminationGracePeriodSeconds: &grace, DNSPolicy: corev1.DNSDefault,
		PriorityClassName: "system-node-critical",
		Tolerations:       []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Volumes: []corev1.Volume{{Name: "corefile", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		}}},
		Containers: []corev1.Container{{
			Name: "main", Image: corednsRef, ImagePullPolicy: corev1.PullNever, Args: []string{"-conf", "/etc/coredns/Corefile"},
			VolumeMounts: []corev1.VolumeMount{{Name: "corefile", MountPath: "/etc/coredns", ReadOnly: true}},
			SecurityContext: &corev1.SecurityContext{
				RunAsUser: &root, AllowPrivilegeEscalation: &no,
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_BIND_SERVICE"}},
			},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8181)}},
				PeriodSeconds: 1, FailureThreshold: 3,
			},
		}},
	}
}

// clusterDNS makes cluster DNS: two pods on different nodes behind the Service
// kube-dns, at the address that pods are told.
func (n *nodeCaches) clusterDNS(t *testing.T) {
	t.Helper()
	n.serviceAccount(t, system, clusterDNS, []rbacv1.PolicyRule{
		may("list watch", "", "services"), may("list watch", "", "pods"), may("list watch", "", "namespaces"), may("list watch", "", "endpoints"),
		may("list watch", "discovery.k8s.io", "endpointslices"),
	}, nil)
	n.corefile(t, clusterDNS, clusterDNSCorefile)
	replicas, labels := int32(2), map[string]string{"app": clusterDNS}
	spec := spread(dnsSpec(clusterDNS), clusterDNS)
	// One of them is where it can die without those who ask.
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{victimNode},
			}}},
		}},
	}}
	_, err := n.client().AppsV1().Deployments(system).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: clusterDNS},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	port := func(name string, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Protocol: protocol, Port: 53, TargetPort: intstr.FromInt32(53)}
	}
	_, err = n.client().CoreV1().Services(system).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-dns"},
		Spec: corev1.ServiceSpec{
			Selector: labels, ClusterIP: n.DNSAddress(),
			Ports: []corev1.ServicePort{port("dns", corev1.ProtocolUDP), port("dns-tcp", corev1.ProtocolTCP)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// cache makes a DaemonSet of a cache in the nodes' networks. Ours alone is given
// what it needs of the API.
func (n *nodeCaches) cache(t *testing.T, name, corefile, address string) {
	t.Helper()
	spec := dnsSpec(name)
	main := &spec.Containers[0]
	if address == oursAddress {
		n.serviceAccount(t, system, name, hedgeEverywhere(), hedgeHere())
		kind := corev1.HostPathDirectoryOrCreate
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "node", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: cacheDir, Type: &kind}}})
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: "node", MountPath: cacheDir})
		field := func(env, path string) corev1.EnvVar {
			return corev1.EnvVar{Name: env, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
		}
		main.Env = []corev1.EnvVar{field("NODE_NAME", "spec.nodeName"), field("HOST_IP", "status.hostIP")}
	} else {
		n.serviceAccount(t, system, name, nil, nil)
	}
	n.corefile(t, name, corefile)
	spec.HostNetwork = true
	main.ReadinessProbe.HTTPGet.Host = address
	labels := map[string]string{"app": name}
	_, err := n.client().AppsV1().DaemonSets(system).Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// services makes the Services whose names are asked for again and again.
func (n *nodeCaches) services(t *testing.T) {
	t.Helper()
	for i := range heldNames {
		_, err := n.client().CoreV1().Services(n.ns).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("held%d", i)},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// heldNames is how many of them there are, as asker has it.
const heldNames = 25

package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/cluster/lab"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	imageRef  = "localhost/firebreak/coredns:test"
	namespace = "kube-system"
	daemonSet = "firebreak-node-cache"
	service   = "kubernetes.default.svc.cluster.local"
)

// world is a cluster with a cluster DNS, and a client on each node.
type world struct {
	*lab.Cluster
	clients []*corev1.Pod
}

// The chart is installed into a real cluster, with the image that `make image`
// makes: pods ask the cache of their node by their resolv.conf, a roll never
// leaves a node without a ready one, and what is uninstalled leaves nothing.
func TestInstall(t *testing.T) {
	lab.Require(t)
	client, err := lab.ClientImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Cluster: lab.Start(t, lab.Options{Nodes: 3, Images: []lab.Image{client, packed(t, imageRef), askerImage(t)}})}
	w.clusterDNS(t)
	for _, node := range []string{"node1", "node2", "node3"} {
		w.clients = append(w.clients, w.run(t, "client-"+node, corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "main", Image: lab.ClientRef, ImagePullPolicy: corev1.PullNever}},
		}))
	}
	w.resolves(t, "before", "getent", "hosts", service)
	before := w.hosts(t)

	values := []string{
		"--namespace", namespace, "--kubeconfig", w.KubeconfigPath(), "--wait", "--timeout", "3m",
		"--set", "image.repository=localhost/firebreak/coredns,image.tag=test,image.pullPolicy=Never",
		"--set", "nodeCache.mode=serviceIP,nodeCache.minReadySeconds=1,nodeCache.maxSurge=1,clusterDNS.serviceIPs={" + w.DNSAddress() + "}",
		"--set", "upstream.servers={192.0.2.53}", // the nodes' resolv.conf names nobody: there is no way out of the cluster
	}
	if out, err := helm(t, append([]string{"install", "firebreak", chart}, values...)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if pods := w.pods(t); len(pods) != 3 {
		t.Errorf("%d pods of the node cache, want one on each node", len(pods))
	}
	for _, pod := range w.pods(t) {
		out, err := w.Exec(t.Context(), namespace, pod.Name, "", "/coredns", "probe", "unix:///run/firebreak/control.sock")
		if err != nil || !strings.HasSuffix(strings.TrimSpace(out), ": ready") {
			t.Errorf("Probe in %s = %q, %v, want that it is ready", pod.Name, out, err)
		}
	}

	t.Run("Answers", func(t *testing.T) {
		w.resolves(t, "by resolv.conf", "getent", "hosts", service)
		w.resolves(t, "by musl", "lookup-musl", service)
		w.resolves(t, "at the link-local address", "drill", "@169.254.20.10", service)
		w.resolves(t, "over TCP", "drill", "-t", "@169.254.20.10", service)
		for _, c := range w.clients {
			m, err := w.exec(t, c, "wget", "-q", "-O", "-", "http://169.254.20.10:9253/metrics")
			if err != nil {
				t.Fatal(err)
			}
			hits := 0
			for line := range strings.Lines(m) {
				if strings.HasPrefix(line, `coredns_nodecache_hits_total{`) && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
					hits++
				}
			}
			if hits == 0 {
				t.Errorf("The cache of %s has no hit, want that it answered its pod", c.Spec.NodeName)
			}
		}
	})
	t.Run("Roll", func(t *testing.T) { w.roll(t, values) })
	// The other mode: pods have the link-local address in their resolv.conf, as a
	// kubelet with that clusterDNS writes it, and the Service is kube-proxy's again.
	t.Run("LinkLocal", func(t *testing.T) {
		args := append([]string{"upgrade", "firebreak", chart}, values...)
		if out, err := helm(t, append(args, "--set", "nodeCache.mode=linkLocal,nodeCache.configChange=roll")...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		w.resolves(t, "by the Service", "getent", "hosts", service)
		all := w.clients
		defer func() { w.clients = all }()
		w.clients = nil
		for _, c := range all {
			w.clients = append(w.clients, w.run(t, "link-local-"+c.Spec.NodeName, corev1.PodSpec{
				NodeName:   c.Spec.NodeName,
				DNSPolicy:  corev1.DNSNone,
				DNSConfig:  &corev1.PodDNSConfig{Nameservers: []string{"169.254.20.10"}, Searches: []string{"svc.cluster.local"}},
				Containers: []corev1.Container{{Name: "main", Image: lab.ClientRef, ImagePullPolicy: corev1.PullNever}},
			}))
		}
		w.resolves(t, "by a link-local resolv.conf", "getent", "hosts", "kubernetes.default")
	})
	t.Run("Uninstall", func(t *testing.T) {
		if out, err := helm(t, "uninstall", "firebreak", "--namespace", namespace, "--kubeconfig", w.KubeconfigPath(), "--wait"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		eventually(t, time.Minute, "the pods to be gone", func() error {
			if pods := w.pods(t); len(pods) > 0 {
				return fmt.Errorf("%d are left", len(pods))
			}
			return nil
		})
		w.resolves(t, "afterwards", "getent", "hosts", service)
		for node, now := range w.hosts(t) {
			if now != before[node] {
				t.Errorf("%s is not as before:\n%s\nwas\n%s", node, now, before[node])
			}
		}
	})
}

// resolves has every client ask.
func (w *world) resolves(t *testing.T, when string, args ...string) {
	t.Helper()
	for _, c := range w.clients {
		eventually(t, 30*time.Second, c.Name+" to resolve "+when, func() error {
			out, err := w.exec(t, c, args...)
			if err == nil && !strings.Contains(out, "10.") {
				err = fmt.Errorf("it printed %q", out)
			}
			return err
		})
	}
}

// hosts are the links, addresses and rules of every node, less what belongs to
// its pods.
func (w *world) hosts(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, c := range w.clients {
		node := c.Spec.NodeName
		for _, args := range [][]string{
			{"sh", "-c", "ip -o address show | grep -v veth | sed 's/valid_lft.*//'"},
			{"sh", "-c", "nft list tables | grep -v kube-proxy || true"},
		} {
			cmd, err := w.Command(t.Context(), node, args...)
			must(t, err)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s on %s: %v\n%s", args, node, err, out)
			}
			found[node] += string(out)
		}
	}
	return found
}

func (w *world) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	list, err := w.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=node-cache"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (w *world) exec(t *testing.T, pod *corev1.Pod, args ...string) (string, error) {
	t.Helper()
	return w.Exec(t.Context(), pod.Namespace, pod.Name, "", args...)
}

// run makes a pod and waits until it is ready.
func (w *world) run(t *testing.T, name string, spec corev1.PodSpec) *corev1.Pod {
	t.Helper()
	pods := w.Client().CoreV1().Pods(namespace)
	pod, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "pod "+name+" to be ready", func() error {
		if pod, err = pods.Get(t.Context(), name, metav1.GetOptions{}); err == nil && !ready(pod) {
			err = fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return err
	})
	return pod
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// clusterDNS is a cluster DNS as kubeadm has it, at the address that pods ask.
func (w *world) clusterDNS(t *testing.T) {
	t.Helper()
	ctx, all := t.Context(), metav1.CreateOptions{}
	labels := map[string]string{"k8s-app": "kube-dns"}
	meta := metav1.ObjectMeta{Name: "coredns", Namespace: namespace}
	api, two, yes := w.Client(), int32(2), true
	_, err := api.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, all)
	must(t, err)
	_, err = api.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:coredns"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services", "namespaces", "pods"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}},
	}}, all)
	must(t, err)
	_, err = api.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "system:coredns"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:coredns"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "coredns", Namespace: namespace}},
	}, all)
	must(t, err)
	_, err = api.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"Corefile": `.:53 {
    errors
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        ttl 5
    }
    reload
}
`}}, all)
	must(t, err)
	_, err = api.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-dns", Namespace: namespace, Labels: labels},
		Spec: corev1.ServiceSpec{Selector: labels, ClusterIP: w.DNSAddress(), Ports: []corev1.ServicePort{
			{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP},
		}},
	}, all)
	must(t, err)
	_, err = api.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ServiceAccountName: "coredns", DNSPolicy: corev1.DNSDefault,
			Containers: []corev1.Container{{
				Name: "coredns", Image: imageRef, ImagePullPolicy: corev1.PullNever, Args: []string{"-conf", "/etc/coredns/Corefile"},
				ReadinessProbe: &corev1.Probe{
					ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8181)}},
					PeriodSeconds: 1,
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/coredns"}},
				SecurityContext: &corev1.SecurityContext{
					RunAsNonRoot:   &yes, // the image's user is a number
					Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
			}},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "coredns"}}}}},
		}},
	}}, all)
	must(t, err)
	eventually(t, 2*time.Minute, "cluster DNS", func() error {
		d, err := api.AppsV1().Deployments(namespace).Get(ctx, "coredns", metav1.GetOptions{})
		if err == nil && d.Status.ReadyReplicas != two {
			err = fmt.Errorf("%d of %d pods are ready", d.Status.ReadyReplicas, two)
		}
		return err
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually tries until try returns nil, and fails the test when limit has passed.
func eventually(t *testing.T, limit time.Duration, what string, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s: %v", limit, what, err)
		}
	}
}

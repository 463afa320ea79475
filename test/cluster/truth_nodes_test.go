package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"firebreakdns.io/firebreak/test/cluster/lab"
)

// A taint keeps pods off a node, or sends them away. The node is one of its
// own, added with the taint and removed at the end.
func testTaints(t *testing.T, w *world) {
	ns := w.namespace(t)
	const key = "truth.test/only"
	started := time.Now()
	node, err := w.AddNode(t.Context(), lab.NodeOptions{
		Labels: map[string]string{"truth.test/node": "tainted"},
		Taints: []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s was Ready after %s", node, time.Since(started).Round(time.Second))
	there := func(tolerations ...corev1.Toleration) corev1.PodSpec {
		spec := clientSpec()
		spec.NodeSelector = map[string]string{"truth.test/node": "tainted"}
		spec.Tolerations = tolerations
		return spec
	}
	tolerant := w.run(t, ns, "tolerant", nil, there(corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}))
	if tolerant.Spec.NodeName != node {
		t.Fatalf("the pod that selects %s is on %s", node, tolerant.Spec.NodeName)
	}
	pods := w.client().CoreV1().Pods(ns)
	_, err = pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: there()}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the scheduler to refuse a pod without a toleration", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "other", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
				return nil
			}
		}
		return fmt.Errorf("it is on %q", pod.Spec.NodeName)
	})
	patch := fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"effect":"NoExecute"}]}}`, key)
	if _, err := w.client().CoreV1().Nodes().Patch(t.Context(), node, "application/strategic-merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the pod to be sent away", func(ctx context.Context) error {
		_, err := pods.Get(ctx, "tolerant", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
	if err := w.RemoveNode(t.Context(), node); err != nil {
		t.Error(err)
	}
}

// A node that dies is noticed by its silence: after the node monitor's grace
// period of 50 s, counted from its last lease. Its endpoints are ready until
// then, and no longer. When it comes back, so do its pods.
func testDeadNode(t *testing.T, w *world) {
	ns := w.namespace(t)
	service := w.serve(t, ns, "web", 3, spread(serverSpec(), "web"))
	spec := clientSpec()
	spec.NodeName = "node1"
	client := w.run(t, ns, "client", nil, spec)
	const victim = "node3"

	node := func(ctx context.Context) (*corev1.Node, corev1.ConditionStatus) {
		node, err := w.client().CoreV1().Nodes().Get(ctx, victim, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return node, condition.Status
			}
		}
		return node, ""
	}
	endpoint := func(ctx context.Context) bool {
		list, err := w.client().DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
		if err != nil {
			t.Fatal(err)
		}
		for _, slice := range list.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.NodeName != nil && *endpoint.NodeName == victim && *endpoint.Conditions.Ready {
					return true
				}
			}
		}
		return false
	}
	eventually(t, 30*time.Second, "the endpoint on "+victim+" to be ready", func(ctx context.Context) error {
		if !endpoint(ctx) {
			return errors.New("it is not")
		}
		return nil
	})

	killed := time.Now()
	if err := w.KillNode(t.Context(), victim); err != nil {
		t.Fatal(err)
	}
	t.Logf("killed in %s", time.Since(killed).Round(time.Millisecond))
	if !endpoint(t.Context()) {
		t.Errorf("the endpoint on %s is unready as soon as it dies: somebody told", victim)
	}
	eventually(t, 90*time.Second, victim+" to be noticed", func(ctx context.Context) error {
		if _, status := node(ctx); status != corev1.ConditionUnknown {
			return fmt.Errorf("its Ready is %s", status)
		}
		return nil
	})
	// The lease may have been renewed up to 10 s before it died, and the monitor
	// looks every 5 s.
	if took := time.Since(killed); took < 38*time.Second || took > 60*time.Second {
		t.Errorf("%s was noticed after %s, want 50 s from its last lease", victim, took.Round(time.Second))
	} else {
		t.Logf("%s was noticed after %s", victim, took.Round(time.Second))
	}
	eventually(t, 15*time.Second, "its endpoint to be unready", func(ctx context.Context) error {
		if endpoint(ctx) {
			return errors.New("it is ready")
		}
		return nil
	})
	t.Logf("its endpoint left after %s", time.Since(killed).Round(time.Second))
	eventually(t, 15*time.Second, "its taint", func(ctx context.Context) error {
		n, _ := node(ctx)
		for _, taint := range n.Spec.Taints {
			if taint.Key == corev1.TaintNodeUnreachable && taint.Effect == corev1.TaintEffectNoExecute {
				return nil
			}
		}
		return fmt.Errorf("it has %v", n.Spec.Taints)
	})
	// kube-proxy has taken it out on the other nodes.
	time.Sleep(2 * time.Second)
	for i := range 12 {
		if _, err := w.fetch(t, client, service.Spec.ClusterIP, 80); err != nil {
			t.Errorf("request %d to the Service, whose dead endpoint is known: %v", i, err)
		}
	}

	revived := time.Now()
	if err := w.ReviveNode(t.Context(), victim); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s was Ready %s after it was switched on", victim, time.Since(revived).Round(time.Second))
	eventually(t, time.Minute, "its endpoint to be ready again", func(ctx context.Context) error {
		if !endpoint(ctx) {
			return errors.New("it is not")
		}
		return nil
	})
	t.Logf("its endpoint was ready %s after", time.Since(revived).Round(time.Second))
}

// Programs that are killed come back, and what they look after goes on.
func testKilledPrograms(t *testing.T, w *world) {
	ns, spec := w.namespace(t), clientSpec()
	spec.NodeName = "node2"
	before := w.run(t, ns, "before", nil, spec)
	for machine, programs := range map[string][]string{"node2": {"kubelet", "containerd", "kube-proxy"}, "control": {"etcd", "kube-apiserver"}} {
		for _, program := range programs {
			if err := w.KillProgram(t.Context(), machine, program); err != nil {
				t.Fatal(err)
			}
		}
	}
	var after *corev1.Pod
	eventually(t, time.Minute, "the API server to be back", func(ctx context.Context) (err error) {
		after, err = w.client().CoreV1().Pods(ns).Get(ctx, "before", metav1.GetOptions{})
		return err
	})
	eventually(t, time.Minute, "a new pod to be taken", func(ctx context.Context) error {
		_, err := w.client().CoreV1().Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "after"}, Spec: spec}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	eventually(t, time.Minute, "the new pod to be Ready", func(ctx context.Context) error {
		pod, err := w.client().CoreV1().Pods(ns).Get(ctx, "after", metav1.GetOptions{})
		if err == nil && !ready(pod) {
			err = fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return err
	})
	after, err := w.client().CoreV1().Pods(ns).Get(t.Context(), "before", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if old, now := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]; old.ContainerID != now.ContainerID || now.RestartCount != 0 {
		t.Errorf("the old pod's container was %s and is %s after %d restarts", old.ContainerID, now.ContainerID, now.RestartCount)
	}
}

// All of it stays below 2 GB, with the other tests' pods just gone.
func testMemory(t *testing.T, w *world) {
	list, err := lab.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Name != w.Name() {
			continue
		}
		t.Logf("the cluster's processes hold %d MiB", s.Memory>>20)
		if s.Memory == 0 || s.Memory > 2e9 {
			t.Errorf("the cluster's processes hold %d bytes, want at most 2 GB", s.Memory)
		}
		return
	}
	t.Errorf("cluster %s is not in the list", w.Name())
}

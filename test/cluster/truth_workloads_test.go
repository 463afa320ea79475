package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A readiness gate keeps a rollout waiting until somebody sets the condition.
func testDeployment(t *testing.T, w *world) {
	const gate = "firebreak.test/loaded"
	ns, replicas, labels := w.namespace(t), int32(2), map[string]string{"app": "gated"}
	spec := serverSpec()
	spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	deployments := w.client().AppsV1().Deployments(ns)
	_, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "gated"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var pods []corev1.Pod
	eventually(t, time.Minute, "two pods whose containers are ready", func(ctx context.Context) error {
		pods, err = w.pods(ctx, ns, "gated")
		if err == nil && len(pods) != 2 {
			err = fmt.Errorf("%d pods", len(pods))
		}
		for i := range pods {
			if !hasCondition(&pods[i], corev1.ContainersReady) {
				err = fmt.Errorf("%s is not there yet", pods[i].Name)
			}
		}
		return err
	})
	available := func(ctx context.Context) int32 {
		d, err := deployments.Get(ctx, "gated", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d.Status.AvailableReplicas
	}
	for i := range pods {
		if ready(&pods[i]) {
			t.Errorf("%s is Ready without the condition that its gate wants", pods[i].Name)
		}
	}
	if n := available(t.Context()); n != 0 {
		t.Errorf("%d replicas are available before their gate is open", n)
	}
	for _, pod := range pods {
		patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True"}]}}`, gate)
		_, err := w.client().CoreV1().Pods(ns).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 30*time.Second, "both replicas to be available", func(ctx context.Context) error {
		if n := available(ctx); n != 2 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

// A DaemonSet that surges starts a node's new pod beside its old one, so that
// no node is without one at any time.
func testSurge(t *testing.T, w *world) {
	ns, labels := w.namespace(t), map[string]string{"app": "surge"}
	one, none := intstr.FromInt32(1), intstr.FromInt32(0)
	sets := w.client().AppsV1().DaemonSets(ns)
	set, err := sets.Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "surge"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: &one, MaxUnavailable: &none},
			},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: serverSpec()},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	updated := func(ctx context.Context) error {
		set, err = sets.Get(ctx, "surge", metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := set.Status
		if s.ObservedGeneration != set.Generation || s.UpdatedNumberScheduled < 3 || s.NumberAvailable != s.DesiredNumberScheduled {
			return fmt.Errorf("%d of %d are updated, %d are available", s.UpdatedNumberScheduled, s.DesiredNumberScheduled, s.NumberAvailable)
		}
		return nil
	}
	eventually(t, time.Minute, "a pod on every node", updated)
	patch := `{"spec":{"template":{"metadata":{"annotations":{"firebreak.test/change":"1"}}}}}`
	if _, err := sets.Patch(t.Context(), "surge", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	surged := false
	took := eventually(t, 2*time.Minute, "the update", func(ctx context.Context) error {
		pods, err := w.pods(ctx, ns, "surge")
		if err != nil {
			return err
		}
		readyOn, on := map[string]int{}, map[string]int{}
		for i := range pods {
			on[pods[i].Spec.NodeName]++
			if ready(&pods[i]) && pods[i].DeletionTimestamp == nil {
				readyOn[pods[i].Spec.NodeName]++
			}
		}
		for _, node := range []string{"node1", "node2", "node3"} {
			if readyOn[node] == 0 {
				t.Errorf("%s had no ready pod during the update", node)
			}
			surged = surged || on[node] > 1
		}
		return updated(ctx)
	})
	if !surged {
		t.Error("no node ever had two pods")
	}
	t.Logf("updated within %s", took.Round(time.Second))
}

// An exec probe decides readiness in both directions.
func testExecProbe(t *testing.T, w *world) {
	ns, spec := w.namespace(t), clientSpec()
	spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"cat", "/tmp/ready"}}},
		PeriodSeconds: 1, FailureThreshold: 1,
	}
	pods := w.client().CoreV1().Pods(ns)
	pod, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probed"}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	become := func(what string, want func(*corev1.Pod) bool) {
		t.Helper()
		eventually(t, time.Minute, "the pod to be "+what, func(ctx context.Context) error {
			pod, err = pods.Get(ctx, "probed", metav1.GetOptions{})
			if err == nil && !want(pod) {
				err = errors.New("it is not")
			}
			return err
		})
	}
	running := func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }
	unready := func(pod *corev1.Pod) bool { return running(pod) && !ready(pod) }
	become("running", running)
	time.Sleep(2 * time.Second)
	become("unready while the file is missing", unready)
	w.exec(t, pod, "touch", "/tmp/ready")
	become("Ready once the file is there", ready)
	w.exec(t, pod, "rm", "/tmp/ready")
	become("unready again", unready)
}

// A container that ends is started again.
func testRestart(t *testing.T, w *world) {
	ns, spec := w.namespace(t), clientSpec()
	spec.Containers[0].Command = []string{"sh", "-c", "sleep 2; exit 3"}
	pods := w.client().CoreV1().Pods(ns)
	_, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "ends"}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "a restart", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "ends", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, status := range pod.Status.ContainerStatuses {
			if ended := status.LastTerminationState.Terminated; status.RestartCount > 0 && ended != nil {
				if ended.ExitCode != 3 {
					t.Fatalf("it is said to have ended with %d, not 3", ended.ExitCode)
				}
				return nil
			}
		}
		return errors.New("none yet")
	})
}

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"firebreakdns.io/firebreak/test/cluster/lab"
)

const serverRef = "localhost/testserver:1"

// TestTruth holds the cluster to what a real one does, as far as other tests
// build on it.
func TestTruth(t *testing.T) {
	t.Parallel()
	w := &world{Cluster: lab.Start(t, lab.Options{Nodes: 3, Images: images(t)})}
	t.Run("together", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *world){
			"Deployment":    testDeployment,
			"Surge":         testSurge,
			"Service":       testService,
			"EndpointSlice": testEndpointSlice,
			"Config":        testConfig,
			"ExecProbe":     testExecProbe,
			"Taints":        testTaints,
			"Leases":        testLeases,
			"RBAC":          testRBAC,
			"Kubelet":       testKubelet,
			"CRD":           testCRD,
			"Admission":     testAdmission,
			"Clients":       testClients,
			"HostPath":      testHostPath,
			"Restart":       testRestart,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, w)
			})
		}
	})
	t.Run("Memory", func(t *testing.T) { testMemory(t, w) })
	t.Run("KilledPrograms", func(t *testing.T) { testKilledPrograms(t, w) })
	t.Run("DeadNode", func(t *testing.T) { testDeadNode(t, w) })
}

// images are those that the tests' pods run.
func images(t *testing.T) []lab.Image {
	t.Helper()
	lab.Require(t)
	client, err := lab.ClientImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server, err := lab.Compile(t.Context(), t.TempDir(), "firebreakdns.io/firebreak/test/cluster/testserver")
	if err != nil {
		t.Fatal(err)
	}
	return []lab.Image{client, lab.Binary(serverRef, server)}
}

// world is the cluster with what the tests do to it.
type world struct{ *lab.Cluster }

func (w *world) client() *kubernetes.Clientset { return w.Client() }

// namespace makes a namespace for a test and deletes it afterwards.
func (w *world) namespace(t *testing.T) string {
	t.Helper()
	made, err := w.client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "truth-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := w.client().CoreV1().Namespaces().Delete(context.Background(), made.Name, metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	// Pods are refused until its service account is there.
	eventually(t, 30*time.Second, "the default service account", func(ctx context.Context) error {
		_, err := w.client().CoreV1().ServiceAccounts(made.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return made.Name
}

// eventually tries until try returns nil, and fails the test when limit has
// passed. It returns how long it took.
func eventually(t *testing.T, limit time.Duration, what string, try func(context.Context) error) time.Duration {
	t.Helper()
	started := time.Now()
	for {
		err := try(t.Context())
		took := time.Since(started)
		if err == nil {
			return took
		}
		if took > limit {
			t.Fatalf("waited %s for %s: %v", took.Round(time.Second), what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// serverSpec is a pod that runs the test server, ready when it answers.
func serverSpec(args ...string) corev1.PodSpec {
	grace := int64(20)
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers: []corev1.Container{{
			Name: "main", Image: serverRef, ImagePullPolicy: corev1.PullNever, Args: args,
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("http")}},
				PeriodSeconds: 1,
			},
		}},
	}
}

// clientSpec is a pod with the client image, which sleeps.
func clientSpec() corev1.PodSpec {
	grace := int64(0)
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers:                    []corev1.Container{{Name: "main", Image: lab.ClientRef, ImagePullPolicy: corev1.PullNever}},
	}
}

// run makes a pod and waits until it is Ready.
func (w *world) run(t *testing.T, namespace, name string, labels map[string]string, spec corev1.PodSpec) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: spec}
	pod, err := w.client().CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "pod "+name+" to be Ready", func(ctx context.Context) error {
		pod, err = w.client().CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && !ready(pod) {
			err = fmt.Errorf("it is %s: %v", pod.Status.Phase, pod.Status.Conditions)
		}
		return err
	})
	return pod
}

// exec runs a command in a pod, which must succeed.
func (w *world) exec(t *testing.T, pod *corev1.Pod, args ...string) string {
	t.Helper()
	out, err := w.Exec(t.Context(), pod.Namespace, pod.Name, "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// ready says whether a pod is Ready.
func ready(pod *corev1.Pod) bool { return hasCondition(pod, corev1.PodReady) }

func hasCondition(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// pods lists the pods with a label app.
func (w *world) pods(ctx context.Context, namespace, app string) ([]corev1.Pod, error) {
	list, err := w.client().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	return list.Items, err
}

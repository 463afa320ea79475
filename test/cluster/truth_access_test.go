package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// account makes a service account and returns its client.
func (w *world) account(t *testing.T, ns, name string) *kubernetes.Clientset {
	t.Helper()
	_, err := w.client().CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := w.ConfigFor(t.Context(), ns, name)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A service account may do what it was given and nothing else, and a kubelet
// only what is its own node's.
func testRBAC(t *testing.T, w *world) {
	ns := w.namespace(t)
	client := w.account(t, ns, "limited")
	get := func() error {
		_, err := client.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := get(); !apierrors.IsForbidden(err) {
		t.Errorf("without a role, listing ConfigMaps says %v, want forbidden", err)
	}
	_, err := w.client().RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.client().RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "limited", Namespace: ns}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := get(); err != nil {
		t.Errorf("with the role: %v", err)
	}
	if _, err := client.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the role does not have Secrets, but listing them says %v", err)
	}
	if _, err := client.CoreV1().ConfigMaps("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the role is of another namespace, but kube-system says %v", err)
	}
	// Nobody gives away what he has not.
	_, err = client.RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "more"}}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("making a role says %v, want forbidden", err)
	}

	config, err := clientcmd.BuildConfigFromFlags("", w.NodeKubeconfig("node1"))
	if err != nil {
		t.Fatal(err)
	}
	kubelet, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "none-of-its-business"}}
	if _, err := w.client().CoreV1().Secrets(ns).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kubelet.CoreV1().Secrets(ns).Get(t.Context(), secret.Name, metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a Secret that none of its pods uses: the kubelet is told %v, want forbidden", err)
	}
	for node, want := range map[string]bool{"node1": true, "node2": false} {
		patch := []byte(`{"metadata":{"labels":{"truth.test/patched":"yes"}}}`)
		_, err := kubelet.CoreV1().Nodes().Patch(t.Context(), node, "application/merge-patch+json", patch, metav1.PatchOptions{})
		if (err == nil) != want {
			t.Errorf("the kubelet of node1 patches %s: %v", node, err)
		}
	}
}

// A kubelet asks the API server who calls it and what that one may do.
func testKubelet(t *testing.T, w *world) {
	ns := w.namespace(t)
	w.account(t, ns, "nobody")
	nobody, err := w.ConfigFor(t.Context(), ns, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	node, err := w.client().CoreV1().Nodes().Get(t.Context(), "node1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("https://%s:%d/pods", node.Status.Addresses[0].Address, node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	for who, want := range map[string]int{"": http.StatusUnauthorized, nobody.BearerToken: http.StatusForbidden} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if who != "" {
			request.Header.Set("Authorization", "Bearer "+who)
		}
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 10 * time.Second}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s with the token %.10q: %s, want %d", url, who, answer.Status, want)
		}
	}
	// The API server may: it fetches logs there.
	pod := w.run(t, ns, "speaks", nil, func() corev1.PodSpec {
		spec := clientSpec()
		spec.Containers[0].Command = []string{"sh", "-c", "echo spoken; sleep 1000"}
		return spec
	}())
	stream, err := w.client().CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if said, err := io.ReadAll(stream); string(said) != "spoken\n" {
		t.Errorf("the pod's log is %q (%v)", said, err)
	}
}

// Kubelets renew their nodes' leases, and whoever has the role can lead by one.
func testLeases(t *testing.T, w *world) {
	renewed := func(node string) time.Time {
		var lease *coordinationv1.Lease
		// A kubelet makes its lease a moment after it is Ready.
		eventually(t, 20*time.Second, "the lease of "+node, func(ctx context.Context) (err error) {
			lease, err = w.client().CoordinationV1().Leases("kube-node-lease").Get(ctx, node, metav1.GetOptions{})
			return err
		})
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != node {
			t.Errorf("the lease of %s is held by %v", node, lease.Spec.HolderIdentity)
		}
		return lease.Spec.RenewTime.Time
	}
	before := map[string]time.Time{}
	for _, node := range []string{"node1", "node2", "node3"} {
		before[node] = renewed(node)
	}
	time.Sleep(15 * time.Second)
	for node, then := range before {
		if now := renewed(node); !now.After(then) {
			t.Errorf("%s did not renew its lease in 15 s", node)
		}
	}
	ns, holder, seconds := w.namespace(t), "one", int32(15)
	lease, err := w.client().CoordinationV1().Leases(ns).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "leader"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old, two := lease.DeepCopy(), "two"
	*lease.Spec.LeaseDurationSeconds = 20
	if _, err := w.client().CoordinationV1().Leases(ns).Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	old.Spec.HolderIdentity = &two
	if _, err := w.client().CoordinationV1().Leases(ns).Update(t.Context(), old, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("taking a lease by its old version says %v, want a conflict", err)
	}
}

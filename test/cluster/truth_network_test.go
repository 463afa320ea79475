package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// serve makes a Deployment of the test server and a Service of both families,
// and waits until all its replicas are available.
func (w *world) serve(t *testing.T, ns, app string, replicas int32, spec corev1.PodSpec) *corev1.Service {
	t.Helper()
	labels := map[string]string{"app": app}
	_, err := w.client().AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	families := corev1.IPFamilyPolicyRequireDualStack
	service, err := w.client().CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: corev1.ServiceSpec{
			Selector: labels, IPFamilyPolicy: &families,
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the replicas of "+app, func(ctx context.Context) error {
		d, err := w.client().AppsV1().Deployments(ns).Get(ctx, app, metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas != replicas {
			err = fmt.Errorf("%d of %d are available", d.Status.AvailableReplicas, replicas)
		}
		return err
	})
	return service
}

// spread keeps an app's pods on different nodes.
func spread(spec corev1.PodSpec, app string) corev1.PodSpec {
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
	}}
	return spec
}

// fetch asks for a URL from a pod.
func (w *world) fetch(t *testing.T, pod *corev1.Pod, address string, port int) (string, error) {
	t.Helper()
	addr, err := netip.ParseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + netip.AddrPortFrom(addr, uint16(port)).String() + "/"
	return w.Exec(t.Context(), pod.Namespace, pod.Name, "", "timeout", "3", "wget", "-q", "-O", "-", url)
}

// kube-proxy takes a Service's addresses, of both families, from any node's pod
// to all of its endpoints.
func testService(t *testing.T, w *world) {
	ns := w.namespace(t)
	service := w.serve(t, ns, "web", 2, spread(serverSpec(), "web"))
	endpoints, err := w.pods(t.Context(), ns, "web")
	if err != nil {
		t.Fatal(err)
	}
	if endpoints[0].Spec.NodeName == endpoints[1].Spec.NodeName {
		t.Fatalf("both pods are on %s, against the topology spread constraint", endpoints[0].Spec.NodeName)
	}
	for _, pod := range endpoints {
		if len(pod.Status.PodIPs) != 2 {
			t.Fatalf("pod %s has the addresses %v, want one of each family", pod.Name, pod.Status.PodIPs)
		}
	}
	for _, node := range []string{"node1", "node2", "node3"} {
		spec := clientSpec()
		spec.NodeName = node
		client := w.run(t, ns, "client-"+node, nil, spec)
		for _, address := range service.Spec.ClusterIPs {
			from := map[string]bool{}
			eventually(t, 20*time.Second, fmt.Sprintf("%s from %s to reach both pods", address, node), func(context.Context) error {
				said, err := w.fetch(t, client, address, 80)
				if err != nil {
					return err
				}
				name, _, _ := strings.Cut(said, " ")
				from[name] = true
				if len(from) < 2 {
					return fmt.Errorf("only %v answered", from)
				}
				return nil
			})
		}
		// Past kube-proxy: routes between nodes, of both families.
		for _, pod := range endpoints {
			for _, ip := range pod.Status.PodIPs {
				if _, err := w.fetch(t, client, ip.IP, 8080); err != nil {
					t.Errorf("%s on %s from %s: %v", ip.IP, pod.Spec.NodeName, node, err)
				}
			}
		}
	}
	out, err := w.Command(t.Context(), "node1", "nft", "list", "tables")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := out.Output()
	if err != nil || !strings.Contains(string(tables), "table ip kube-proxy") || !strings.Contains(string(tables), "table ip6 kube-proxy") {
		t.Errorf("node1 has the nftables tables %q (%v), want kube-proxy's of both families", tables, err)
	}
}

// A pod that ends is no longer ready but still serving, and says so in its
// slice until it is gone.
func testEndpointSlice(t *testing.T, w *world) {
	ns := w.namespace(t)
	w.serve(t, ns, "slow", 2, serverSpec("-linger", "8s"))
	pods, err := w.pods(t.Context(), ns, "slow")
	if err != nil {
		t.Fatal(err)
	}
	victim := pods[0].Name
	conditions := func(ctx context.Context) (*discoveryv1.EndpointConditions, error) {
		list, err := w.client().DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=slow"})
		if err != nil {
			return nil, err
		}
		for _, slice := range list.Items {
			for _, endpoint := range slice.Endpoints {
				if slice.AddressType == discoveryv1.AddressTypeIPv4 && endpoint.TargetRef != nil && endpoint.TargetRef.Name == victim {
					return &endpoint.Conditions, nil
				}
			}
		}
		return nil, nil
	}
	eventually(t, 10*time.Second, "the pod to be in its slice, ready", func(ctx context.Context) error {
		c, err := conditions(ctx)
		if err != nil || c == nil || !*c.Ready || !*c.Serving || *c.Terminating {
			return fmt.Errorf("%+v %w", c, errors.Join(err))
		}
		return nil
	})
	if err := w.client().CoreV1().Pods(ns).Delete(t.Context(), victim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the pod to be terminating and serving", func(ctx context.Context) error {
		c, err := conditions(ctx)
		if err != nil || c == nil || *c.Ready || !*c.Serving || !*c.Terminating {
			return fmt.Errorf("%+v %w", c, errors.Join(err))
		}
		return nil
	})
	eventually(t, 30*time.Second, "the pod to leave its slice", func(ctx context.Context) error {
		c, err := conditions(ctx)
		if err == nil && c != nil {
			err = fmt.Errorf("%+v", *c)
		}
		return err
	})
}

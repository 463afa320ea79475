package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"firebreakdns.io/firebreak/plugin/hedge/endpoints"
	"firebreakdns.io/firebreak/plugin/hedge/kube"
	"firebreakdns.io/firebreak/test/cluster/lab"
)

// TestEndpointSlices is what hedge follows a Service with, on a real API server:
// which rights it needs, what it says without them, and that it goes on when the
// API server has been away.
func TestEndpointSlices(t *testing.T) {
	t.Parallel()
	w := &world{lab.Start(t, lab.Options{})}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here", Labels: map[string]string{corev1.LabelTopologyZone: "z1"}}}
	if _, err := w.client().CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ns := w.namespace(t)
	slice := w.slice(t, ns, "10.0.0.1", "10.0.0.2")
	slices := may("list watch", "discovery.k8s.io", "endpointslices")
	nodes := may("get", "", "nodes")
	const (
		near = "10.0.0.1:53/1 10.0.0.2:53/2" // the first is for our zone
		far  = "10.0.0.1:53/2 10.0.0.2:53/2"
	)
	for _, test := range []struct {
		name    string
		rules   []rbacv1.PolicyRule
		says    string // it finds, last
		without string // part of an error that it says
	}{
		{"all", []rbacv1.PolicyRule{slices, nodes}, near, ""},
		{"no-nodes", []rbacv1.PolicyRule{slices}, far, `cannot get resource "nodes"`},
		{"no-list", []rbacv1.PolicyRule{may("watch", "discovery.k8s.io", "endpointslices"), nodes}, near, ""},
		{"no-watch", []rbacv1.PolicyRule{may("list", "discovery.k8s.io", "endpointslices"), nodes}, near, "cannot watch resource"},
		{"none", nil, "", `cannot list resource "endpointslices"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w.grant(t, ns, test.name, test.rules)
			f := followSlices(t, ns, w.kubeconfig(t, ns, test.name))
			f.until(t, 15*time.Second, func(found string, errs []string) bool {
				said := test.without == ""
				for _, e := range errs {
					said = said || strings.Contains(e, test.without)
				}
				return said && found == test.says
			})
			if _, errs := f.now(); test.without == "" && len(errs) > 0 {
				t.Errorf("it says %q, and has all that it needs", errs)
			}
		})
	}

	all := w.kubeconfig(t, ns, "all")
	f := followSlices(t, ns, all)
	f.until(t, 15*time.Second, func(found string, _ []string) bool { return found == near })
	slice.Endpoints[1].Addresses[0] = "10.0.0.3"
	slice = w.update(t, slice)
	changed := time.Now()
	f.until(t, followedWithin, func(found string, _ []string) bool { return found == "10.0.0.1:53/1 10.0.0.3:53/2" })
	t.Logf("a change was followed within %s", time.Since(changed).Round(time.Millisecond))

	if err := w.StopProgram(t.Context(), "control", "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	// A second one starts meanwhile.
	late := followSlices(t, ns, all)
	late.until(t, 15*time.Second, func(_ string, errs []string) bool {
		return strings.Contains(strings.Join(errs, "\n"), "the API server has not answered yet")
	})
	if found, _ := f.now(); found != "10.0.0.1:53/1 10.0.0.3:53/2" {
		t.Errorf("without the API server, it finds %q", found)
	}
	if err := w.StartProgram("control", "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the change after the API server's return", func(context.Context) error {
		slice.Endpoints[1].Addresses[0] = "10.0.0.4"
		_, err := w.client().DiscoveryV1().EndpointSlices(ns).Update(t.Context(), slice, metav1.UpdateOptions{})
		return err
	})
	returned := time.Now()
	for _, f := range []*slicesFollowed{f, late} {
		f.until(t, time.Minute, func(found string, _ []string) bool { return found == "10.0.0.1:53/1 10.0.0.4:53/2" })
	}
	t.Logf("after the API server's return, both followed within %s", time.Since(returned).Round(100*time.Millisecond))
}

// slice makes an EndpointSlice of cluster DNS: an endpoint in each of two zones,
// for its zone.
func (w *world) slice(t *testing.T, ns string, addresses ...string) *discoveryv1.EndpointSlice {
	t.Helper()
	port, name, udp := int32(53), "dns", corev1.ProtocolUDP
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "kube-dns-1", Labels: map[string]string{discoveryv1.LabelServiceName: "kube-dns"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &udp}},
	}
	for i, address := range addresses {
		zone := fmt.Sprintf("z%d", i+1)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}},
		})
	}
	slice, err := w.client().DiscoveryV1().EndpointSlices(ns).Create(t.Context(), slice, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return slice
}

func (w *world) update(t *testing.T, slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	t.Helper()
	slice, err := w.client().DiscoveryV1().EndpointSlices(slice.Namespace).Update(t.Context(), slice, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return slice
}

// grant makes a service account that may do this much: what is of nodes everywhere,
// the rest in its namespace.
func (w *world) grant(t *testing.T, ns, name string, rules []rbacv1.PolicyRule) {
	t.Helper()
	var everywhere, here []rbacv1.PolicyRule
	for _, r := range rules {
		if r.Resources[0] == "nodes" {
			everywhere = append(everywhere, r)
		} else {
			here = append(here, r)
		}
	}
	w.serviceAccount(t, ns, name, everywhere, here)
}

// slicesFollowed is what a follower has said.
type slicesFollowed struct {
	mu    sync.Mutex
	found string
	errs  []string
}

func (w *world) kubeconfig(t *testing.T, ns, account string) string {
	t.Helper()
	file, err := w.Kubeconfig(t.Context(), ns, account)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// followSlices follows the Service with somebody's access, from the node "here".
func followSlices(t *testing.T, ns, kubeconfig string) *slicesFollowed {
	t.Helper()
	watcher, err := kube.New(kube.Options{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	f := &slicesFollowed{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	source := &endpoints.Service{Namespace: ns, Name: "kube-dns", Node: "here", Watcher: watcher}
	go func() {
		defer close(done)
		source.Run(ctx, func(list []endpoints.Endpoint, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if err != nil {
				f.errs = append(f.errs, err.Error())
				return
			}
			var words []string
			for _, e := range list {
				words = append(words, fmt.Sprintf("%s/%d", e.Addr, e.Tier))
			}
			f.found = strings.Join(words, " ")
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

func (f *slicesFollowed) now() (found string, errs []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found, f.errs
}

// until waits until what was said fits.
func (f *slicesFollowed) until(t *testing.T, limit time.Duration, fits func(found string, errs []string) bool) {
	t.Helper()
	eventually(t, limit, "what is followed", func(context.Context) error {
		if found, errs := f.now(); !fits(found, errs) {
			return fmt.Errorf("it found %q and said %q", found, errs)
		}
		return nil
	})
}

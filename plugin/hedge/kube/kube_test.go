package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/hedge/endpoints"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// api is as much of an API server as an informer of EndpointSlices needs.
type api struct {
	mu      sync.Mutex
	away    bool
	slices  map[string]*discoveryv1.EndpointSlice
	version int
	watches []chan metav1.WatchEvent
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	away := a.away
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case away:
		http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"it is away","code":503}`, http.StatusServiceUnavailable)
	case r.URL.Path == "/api/v1/nodes/n1":
		fmt.Fprint(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","labels":{"topology.kubernetes.io/zone":"z1"}}}`)
	case r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices":
		http.NotFound(w, r)
	case r.URL.Query().Get("labelSelector") != "kubernetes.io/service-name=kube-dns":
		http.Error(w, "no such selector", http.StatusBadRequest)
	case r.URL.Query().Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case r.URL.Query().Get("watch") != "":
		a.watch(w, r)
	default:
		a.mu.Lock()
		defer a.mu.Unlock()
		list := discoveryv1.EndpointSliceList{TypeMeta: metav1.TypeMeta{Kind: "EndpointSliceList", APIVersion: "discovery.k8s.io/v1"}}
		list.ResourceVersion = fmt.Sprint(a.version)
		for _, s := range a.slices {
			list.Items = append(list.Items, *s)
		}
		_ = json.NewEncoder(w).Encode(list)
	}
}

func (a *api) watch(w http.ResponseWriter, r *http.Request) {
	events := make(chan metav1.WatchEvent, 16)
	a.mu.Lock()
	a.watches = append(a.watches, events)
	a.mu.Unlock()
	w.(http.Flusher).Flush()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return
			}
			_ = json.NewEncoder(w).Encode(e)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// put makes or changes a slice with a ready endpoint; "" deletes it.
func (a *api) put(name, address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	event := "ADDED"
	s := a.slices[name]
	if s != nil {
		event = "MODIFIED"
	}
	if address == "" {
		event = "DELETED"
		delete(a.slices, name)
	} else {
		var slice discoveryv1.EndpointSlice
		text := fmt.Sprintf(`{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{"name":%q,"namespace":"kube-system","resourceVersion":"%d"},
			"addressType":"IPv4","ports":[{"name":"dns","port":53,"protocol":"UDP"},{"name":"dns-tcp","port":53,"protocol":"TCP"}],
			"endpoints":[{"addresses":[%q],"hints":{"forZones":[{"name":"z1"}]}},{"addresses":["10.9.9.9"],"conditions":{"ready":false}}]}`, name, a.version, address)
		if err := json.Unmarshal([]byte(text), &slice); err != nil {
			panic(err)
		}
		s = &slice
		a.slices[name] = s
	}
	s.ResourceVersion = fmt.Sprint(a.version)
	raw, _ := json.Marshal(s)
	for _, w := range a.watches {
		w <- metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: raw}}
	}
}

// TestWatch: slices are followed from an API server that is away at first.
func TestWatch(t *testing.T) {
	a := &api{away: true, slices: map[string]*discoveryv1.EndpointSlice{}, version: 1}
	server := httptest.NewServer(a)
	defer server.Close()
	w, err := newFor(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	said := make(chan string, 64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Watch(ctx, "kube-system", "kube-dns", func(slices []endpoints.Slice, err error) {
			if err != nil {
				said <- "error: " + err.Error()
				return
			}
			list, err := endpoints.Of(slices, "dns", "", "z1")
			said <- fmt.Sprint(list, err)
		})
	}()
	defer func() { cancel(); server.CloseClientConnections(); <-done }()
	until := func(want string) {
		t.Helper()
		var last string
		for timeout := time.After(10 * time.Second); ; {
			select {
			case last = <-said:
				if strings.Contains(last, want) {
					return
				}
			case <-timeout:
				t.Fatalf("said %q last, want %q", last, want)
			}
		}
	}
	until("unable to handle the request")
	a.mu.Lock()
	a.away = false
	a.mu.Unlock()
	until("it has no endpoints")
	a.put("s1", "10.0.0.1")
	until("[{10.0.0.1:53 2}]")
	a.put("s1", "10.0.0.2")
	until("[{10.0.0.2:53 2}]")
	a.put("s1", "")
	until("it has no endpoints")
	if zone, err := w.Zone(ctx, "n1"); zone != "z1" || err != nil {
		t.Error(zone, err)
	}
	if _, err := w.Zone(ctx, "n2"); err == nil {
		t.Error("no error for a node that is not there")
	}
}

// TestOutside: outside of a cluster, that is what the error says.
func TestOutside(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "name a kubeconfig") {
		t.Error(err)
	}
	if _, err := New(Options{Kubeconfig: "/nowhere"}); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Error(err)
	}
}

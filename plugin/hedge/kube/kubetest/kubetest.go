// Package kubetest is a Kubernetes API server for tests that follow a Service.
package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// API is as much of an API server as an informer of the EndpointSlices of the
// Service kube-dns.kube-system needs.
type API struct {
	mu      sync.Mutex
	away    bool
	slices  map[string]*discoveryv1.EndpointSlice
	version int
	watches []chan metav1.WatchEvent
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

func (a *API) watch(w http.ResponseWriter, r *http.Request) {
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

// Away says whether it answers nothing but errors.
func (a *API) Away(away bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = away
}

// Put makes or changes a slice with a ready endpoint in zone z1, and one that is
// not ready; "" deletes it.
func (a *API) Put(name, address string, port int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slices == nil {
		a.slices = make(map[string]*discoveryv1.EndpointSlice)
	}
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
			"addressType":"IPv4","ports":[{"name":"dns","port":%d,"protocol":"UDP"},{"name":"dns-tcp","port":%d,"protocol":"TCP"}],
			"endpoints":[{"addresses":[%q],"hints":{"forZones":[{"name":"z1"}]}},{"addresses":["10.9.9.9"],"conditions":{"ready":false}}]}`, name, a.version, port, port, address)
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

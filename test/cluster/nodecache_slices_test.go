package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readyAt is what the API server has said of cluster DNS's endpoints at a moment.
type readyAt struct {
	at    time.Time
	ready []string // IP:PORT, sorted
}

// sliceHistory notes who was a ready endpoint of cluster DNS, and since when.
type sliceHistory struct {
	mu   sync.Mutex
	last []readyAt
}

// watchSlices watches as hedge does, with other eyes.
func watchSlices(t *testing.T, w *world) *sliceHistory {
	t.Helper()
	h := &sliceHistory{last: []readyAt{{at: time.Now()}}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = h.follow(ctx, w) // the API server may be away
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return h
}

func (h *sliceHistory) follow(ctx context.Context, w *world) error {
	of := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kube-dns"}
	api := w.client().DiscoveryV1().EndpointSlices(system)
	list, err := api.List(ctx, of)
	if err != nil {
		return err
	}
	known := map[string]*discoveryv1.EndpointSlice{}
	for i := range list.Items {
		known[list.Items[i].Name] = &list.Items[i]
	}
	h.note(known)
	of.ResourceVersion = list.ResourceVersion
	events, err := api.Watch(ctx, of)
	if err != nil {
		return err
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		slice, ok := e.Object.(*discoveryv1.EndpointSlice)
		if !ok {
			return fmt.Errorf("%v", e.Object)
		}
		known[slice.Name] = slice
		if e.Type == "DELETED" {
			delete(known, slice.Name)
		}
		h.note(known)
	}
	return nil
}

func (h *sliceHistory) note(known map[string]*discoveryv1.EndpointSlice) {
	ready := []string{}
	for _, slice := range known {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || !*e.Conditions.Ready {
				continue
			}
			for _, a := range e.Addresses {
				ready = append(ready, net.JoinHostPort(a, "53"))
			}
		}
	}
	slices.Sort(ready)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(ready, h.last[len(h.last)-1].ready) {
		h.last = append(h.last, readyAt{time.Now(), ready})
	}
}

// now is who is ready, and since when that is so.
func (h *sliceHistory) now() readyAt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last[len(h.last)-1]
}

// firstReady is when somebody was ready again for the first time after a moment.
func (h *sliceHistory) firstReady(after time.Time) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.last {
		if r.at.After(after) && len(r.ready) > 0 {
			return r.at, true
		}
	}
	return time.Time{}, false
}

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/cluster/lookups"
)

// A node's cache that is killed while the API server is down is started again by
// its kubelet, and resolves what it never resolved before: by the endpoints that
// were known last, or, where they are lost, by the Service's address.
func testAPIAway(t *testing.T, n *nodeCaches) {
	pods := n.scaled(t, 2)
	nodes := clientNodes // the second loses its snapshot
	caches, err := n.pods(t.Context(), system, "node-cache")
	if err != nil {
		t.Fatal(err)
	}
	boots := map[string]string{}
	for _, node := range nodes {
		s, err := n.state(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		boots[node] = s.BootID
	}

	down := time.Now()
	if err := n.StopProgram(t.Context(), "control", "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	up := false
	back := func() {
		if !up {
			up = true
			if err := n.StartProgram("control", "kube-apiserver"); err != nil {
				t.Error(err)
			}
		}
	}
	defer back()
	time.Sleep(2 * time.Second)
	if err := os.Remove(filepath.Join(n.Disk("node2"), cacheDir, "endpoints.json")); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	for i := range caches {
		if slices.Contains(nodes, caches[i].Spec.NodeName) {
			n.signal(t, &caches[i], func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) })
		}
	}
	wants := map[string][]string{"node1": endpointsOf(pods), "node2": {n.DNSAddress() + ":53"}}
	var again time.Time
	for _, node := range nodes {
		eventually(t, 30*time.Second, "the cache on "+node+" to be back", func(ctx context.Context) error {
			s, err := n.state(ctx, node)
			if err == nil && s.BootID == boots[node] {
				err = errors.New("it is the old one")
			}
			if err != nil {
				return err
			}
			asked, err := n.upstreams(ctx, node)
			if err != nil {
				return err
			}
			if got := slices.Sorted(maps.Keys(asked)); !slices.Equal(got, wants[node]) {
				return fmt.Errorf("it asks %v", got)
			}
			return nil
		})
		again = time.Now()
		t.Logf("%s asks %v, %s after its cache was killed", node, wants[node], time.Since(killed).Round(10*time.Millisecond))
	}
	time.Sleep(4 * time.Second)
	if err := n.client().Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(time.Second).Do(t.Context()).Error(); err == nil {
		t.Error("the API server was not away")
	}
	still := time.Now()
	back()
	eventually(t, time.Minute, "the API server to be back", func(ctx context.Context) error {
		return n.client().Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	returned := time.Now()
	// hedge's manual: it may take a minute.
	took := eventually(t, time.Minute, "the endpoints to be followed again on node2", func(ctx context.Context) error {
		asked, err := n.upstreams(ctx, "node2")
		if err != nil {
			return err
		}
		if got := slices.Sorted(maps.Keys(asked)); !slices.Equal(got, endpointsOf(pods)) {
			return fmt.Errorf("it asks %v", got)
		}
		return nil
	})
	t.Logf("the API server was away for %s; node2 asked the endpoints %s after its return", returned.Sub(down).Round(time.Second), took.Round(100*time.Millisecond))

	ended := time.Now()
	n.later(t, func(t *testing.T, all lookups.List) {
		for _, node := range nodes {
			on := all.Of(oursAddress+":53", "").Those(func(l lookups.Lookup) bool { return l.Node == node })
			t.Logf("%s, while its cache was killed and started again: %s", node, on.Between(killed, again).Sum())
			for _, span := range []struct {
				what     string
				from, to time.Time
			}{
				// What is asked last dies with the cache.
				{"before its cache was killed", down, killed.Add(-lookups.Slowest)},
				{"by the cache that was started without the API server", again, still},
				{"after the return of the API server", still, ended},
			} {
				list := on.Between(span.from, span.to)
				t.Logf("%s, %s: %s", node, span.what, list.Sum())
				noneLost(t, node+", "+span.what, list, heldRate+freshRate, span.from, span.to)
			}
		}
	})
}

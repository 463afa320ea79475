package main

import (
	"os"
	"testing"
	"time"
)

// TestNodeCache is the node cache on a real cluster: it follows the real
// EndpointSlices of cluster DNS, and its pods go on when the API server, all of
// cluster DNS or one of its nodes is gone. Not beside other tests, since it
// measures how long answers take.
func TestNodeCache(t *testing.T) {
	n := startNodeCaches(t)
	t.Run("Follows", func(t *testing.T) { testFollows(t, n) })
	t.Run("APIAway", func(t *testing.T) { testAPIAway(t, n) })
	t.Run("DeadDNS", func(t *testing.T) { testDeadDNS(t, n, 10*time.Second) })
	t.Run("DeadNode", func(t *testing.T) { testDeadNodeOfDNS(t, n, false) })
	t.Run("Lookups", n.checkAll)
}

// TestNodeCacheSoak has the outages last as long as they do: cluster DNS is gone
// for a minute, and a node is dead until Kubernetes notices.
func TestNodeCacheSoak(t *testing.T) {
	if os.Getenv(soakEnv) == "" {
		t.Skipf("it takes four minutes: set %s=1", soakEnv)
	}
	n := startNodeCaches(t)
	t.Run("DeadDNS", func(t *testing.T) { testDeadDNS(t, n, time.Minute) })
	t.Run("DeadNode", func(t *testing.T) { testDeadNodeOfDNS(t, n, true) })
	t.Run("Lookups", n.checkAll)
}

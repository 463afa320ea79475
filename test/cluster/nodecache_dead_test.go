package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"firebreakdns.io/firebreak/test/cluster/lookups"

	"github.com/miekg/dns"
)

const (
	// staleTTL is that of what is held and has expired, and backWithin after what
	// time of cluster DNS's return everything is fresh again.
	staleTTL   = 30
	backWithin = 2 * time.Second
	// answerTTL is what cluster DNS gives its answers.
	answerTTL = 5 * time.Second
)

// All of cluster DNS is gone: every name that is held is answered, marked as stale,
// and fresh again when cluster DNS is back.
func testDeadDNS(t *testing.T, n *nodeCaches, outage time.Duration) {
	n.scaled(t, 2)
	nodes := clientNodes
	stale := map[string]float64{}
	for _, node := range nodes {
		stale[node] = n.metric(t, node, "coredns_nodecache_served_stale_total")
	}
	n.scale(t, 0)
	eventually(t, time.Minute, "the end of cluster DNS", func(ctx context.Context) error {
		pods, err := n.pods(ctx, system, clusterDNS)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods are there", len(pods))
		}
		return err
	})
	gone := time.Now()
	time.Sleep(outage)
	for _, node := range nodes {
		if got := n.metric(t, node, "coredns_nodecache_served_stale_total") - stale[node]; got < heldRate*(outage-answerTTL).Seconds()/2 {
			t.Errorf("%s counts %v answers that were stale", node, got)
		}
		if n.metric(t, node, "coredns_nodecache_failed_refreshes_total") == 0 || n.metric(t, node, "coredns_hedge_failures_total") == 0 {
			t.Errorf("%s counts no question that failed", node)
		}
		asked, err := n.upstreams(t.Context(), node)
		if err != nil || len(asked) == 0 {
			t.Errorf("%s: the upstreams are %v (%v), want those that were known last", node, asked, err)
		}
		for _, u := range asked {
			if u.Healthy {
				t.Errorf("%s takes %s for healthy", node, u.Address)
			}
		}
	}
	begin := time.Now()
	n.scale(t, 2)
	var back time.Time
	eventually(t, time.Minute, "a pod of cluster DNS to be ready", func(context.Context) error {
		var ok bool
		if back, ok = n.slices.firstReady(begin); !ok {
			return errors.New("none is")
		}
		return nil
	})
	n.scaled(t, 2)
	time.Sleep(time.Until(back.Add(backWithin + 2*time.Second)))
	ended := time.Now()
	n.later(t, func(t *testing.T, all lookups.List) {
		ours := all.Of(oursAddress+":53", "held")
		t.Logf("cluster DNS was gone for %s. Names that are held, meanwhile:", back.Sub(gone).Round(100*time.Millisecond))
		t.Logf("ours      %s", ours.Between(gone, back).Sum())
		t.Logf("NodeLocal %s", all.Of(nodeLocalAddress+":53", "held").Between(gone, back).Sum())
		noneLost(t, "without cluster DNS", ours.Between(gone, back), len(nodes)*heldRate, gone, back)
		marked(t, ours.Between(gone.Add(answerTTL+time.Second), begin)) // who comes may answer before it is ready
		var last time.Time
		for _, l := range ours.Between(gone, ended) {
			if l.EDE != -1 {
				last = l.Sent
			}
		}
		t.Logf("the last answer that was stale was %s after a pod of cluster DNS was ready", last.Sub(back).Round(time.Millisecond))
		if last.After(back.Add(backWithin)) {
			t.Errorf("answers were stale for %s after the return of cluster DNS, want %s at most", last.Sub(back), backWithin)
		}
		after := back.Add(backWithin)
		noneLost(t, "after the return of cluster DNS", all.Of(oursAddress+":53", "").Between(after, ended), len(nodes)*(heldRate+freshRate), after, ended)
	})
}

// marked holds that all of the answers say that they are stale, and are those to all
// names.
func marked(t *testing.T, list lookups.List) {
	t.Helper()
	names := map[string]bool{}
	for _, l := range list {
		names[l.Node+" "+l.Name] = true
		if l.EDE != int(dns.ExtendedErrorCodeStaleAnswer) || l.TTL != staleTTL {
			t.Errorf("not marked as stale: %s", l)
			return
		}
	}
	if want := len(clientNodes) * heldNames; len(names) != want {
		t.Errorf("%d names were asked for on the nodes when they had expired, want all %d", len(names), want)
	}
}

// slowestOfHundred is what all but one in a hundred lookups are answered in when a
// node of cluster DNS dies.
const slowestOfHundred = 100 * time.Millisecond

// The node of one of cluster DNS's pods dies. Kubernetes notices after most of a
// minute; the pods on the other nodes notice nothing. NodeLocal's Corefile has the
// same death at the same time. With whole, all of that minute is watched.
func testDeadNodeOfDNS(t *testing.T, n *nodeCaches, whole bool) {
	pods := n.scaled(t, 2)
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == victimNode })
	if i < 0 {
		t.Fatalf("no pod of cluster DNS is on %s", victimNode)
	}
	dead := endpointsOf(pods[i : i+1])[0]
	nodes, ejections := clientNodes, map[string]float64{}
	for _, node := range nodes {
		ejections[node] = n.metric(t, node, "coredns_hedge_ejections_total")
	}
	killed := time.Now()
	if err := n.KillNode(t.Context(), victimNode); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		eventually(t, 5*time.Second, "the dead server to be ejected on "+node, func(ctx context.Context) error {
			asked, err := n.upstreams(ctx, node)
			if u, ok := asked[dead]; err == nil && (!ok || u.Healthy) {
				err = fmt.Errorf("the state says %+v", u)
			}
			return err
		})
		t.Logf("%s had ejected %s when it was looked at %s after the death", node, dead, time.Since(killed).Round(10*time.Millisecond))
	}
	time.Sleep(time.Until(killed.Add(10 * time.Second)))
	for _, node := range nodes {
		if got := n.metric(t, node, "coredns_hedge_ejections_total") - ejections[node]; got < 1 {
			t.Errorf("%s counts no ejection", node)
		}
		if n.metric(t, node, "coredns_hedge_ejected", `to="`+dead+`"`) < 1 {
			t.Errorf("%s does not say that %s is ejected", node, dead)
		}
	}
	if got := n.slices.now().ready; len(got) != 2 {
		t.Errorf("the endpoints are %v: somebody told of the death", got)
	}
	if whole {
		eventually(t, 90*time.Second, "the death to be noticed", func(context.Context) error {
			if got := n.slices.now().ready; len(got) != 1 {
				return fmt.Errorf("the endpoints are %v", got)
			}
			return nil
		})
		t.Logf("the endpoint of the dead node left %s after its death", n.slices.now().at.Sub(killed).Round(100*time.Millisecond))
		time.Sleep(10 * time.Second)
	}
	ended := time.Now()
	n.later(t, func(t *testing.T, all lookups.List) {
		t.Logf("for %s from the death of the node with one of two DNS servers, lookups of pods on the two others:", ended.Sub(killed).Round(time.Second))
		for kind, rate := range map[string]int{"held": heldRate, "fresh": freshRate} {
			list := all.Of(oursAddress+":53", kind).Between(killed, ended)
			t.Logf("ours      %-5s %s", kind, list.Sum())
			t.Logf("NodeLocal %-5s %s", kind, all.Of(nodeLocalAddress+":53", kind).Between(killed, ended).Sum())
			noneLost(t, kind+" names", list, len(nodes)*rate, killed, ended)
			noneSlow(t, kind+" names", list)
			// A busy machine makes its own delays.
			if p99 := list.Sum().P99; p99 > slowestOfHundred && os.Getenv(soakEnv) != "" {
				t.Errorf("P99 of %s names is %s, want %s at most", kind, p99, slowestOfHundred)
			}
		}
	})
	if whole {
		n.followed(t, "the death", nodes...)
	}
}

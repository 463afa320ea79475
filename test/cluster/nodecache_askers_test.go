package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"firebreakdns.io/firebreak/test/cluster/lookups"
)

// clientNodes are those whose pods' lookups count. The third is the one that dies.
var clientNodes = []string{"node1", "node2"}

const victimNode = "node3"

// What each of those pods asks of each cache, in questions a second: names of
// Services, of which there are 25, and of pods, each of which is asked for once.
const heldRate, freshRate = 100, 50

// startAskers has a pod on each node ask, until the cluster ends.
func (n *nodeCaches) startAskers(t *testing.T) {
	t.Helper()
	stream := func(address, kind string, rate int, name string) string {
		return fmt.Sprintf("%s:53,%s,%d,%s", address, kind, rate, name)
	}
	held, fresh := "held%d."+n.ns+".svc.cluster.local", "10-%d."+n.ns+".pod.cluster.local"
	var streams []string
	for _, address := range []string{oursAddress, nodeLocalAddress} {
		streams = append(streams, stream(address, "held", heldRate, held), stream(address, "fresh", freshRate, fresh))
	}
	for _, node := range nodeNames {
		if node == victimNode {
			streams = streams[:2]
		}
		n.askers = append(n.askers, n.run(t, n.ns, "asker-"+node, nil, corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "main", Image: askerRef, ImagePullPolicy: corev1.PullNever, Args: streams}},
		}))
	}
}

// check is what is held of the lookups of a test, when all is over: the log of each
// pod is read once.
type check struct {
	name string
	hold func(t *testing.T, all lookups.List)
}

// later holds something of the lookups, in the end.
func (n *nodeCaches) later(t *testing.T, hold func(t *testing.T, all lookups.List)) {
	n.checks = append(n.checks, check{t.Name()[strings.LastIndex(t.Name(), "/")+1:], hold})
}

// checkAll holds what is to be held of the lookups, once all of them have had their
// time.
func (n *nodeCaches) checkAll(t *testing.T) {
	time.Sleep(lookups.Patience + 300*time.Millisecond)
	var all lookups.List
	for _, pod := range n.askers {
		if pod.Spec.NodeName != victimNode {
			all = append(all, n.lookups(t, pod)...)
		}
	}
	slices.SortFunc(all, func(a, b lookups.Lookup) int { return a.Sent.Compare(b.Sent) })
	for _, c := range n.checks {
		t.Run(c.name, func(t *testing.T) { c.hold(t, all) })
	}
}

// lookups reads a pod's log.
func (n *nodeCaches) lookups(t *testing.T, pod *corev1.Pod) (list lookups.List) {
	t.Helper()
	stream, err := n.client().CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if list, err = lookups.Read(stream, pod.Spec.NodeName); err != nil {
		t.Fatalf("%s: %v", pod.Name, err)
	}
	return list
}

// noneLost holds that none was lost, and that enough were asked in that time.
func noneLost(t *testing.T, what string, list lookups.List, rate int, from, to time.Time) {
	t.Helper()
	if lost := list.Lost(); len(lost) > 0 {
		t.Errorf("%s, %d of %d lookups were lost:%s", what, len(lost), len(list), lost.First())
	}
	if want := to.Sub(from).Seconds() * float64(rate); float64(len(list)) < 0.8*want {
		t.Errorf("%s, there were %d lookups, want some %.0f", what, len(list), want)
	}
	// A busy machine makes its own delays.
	if os.Getenv(soakEnv) != "" {
		noneSlow(t, what, list)
	}
}

// noneSlow holds that none took longer than the quickest of stubs wait for.
func noneSlow(t *testing.T, what string, list lookups.List) {
	t.Helper()
	if slow := list.Those(lookups.Lookup.Slow); len(slow) > 0 {
		t.Errorf("%s, %d of %d lookups took longer than %s:%s", what, len(slow), len(list), lookups.Slowest, slow.First())
	}
}

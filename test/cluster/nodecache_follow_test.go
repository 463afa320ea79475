package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"firebreakdns.io/firebreak/test/cluster/lookups"
)

// followedWithin is what hedge's manual says: after what time a change of the
// endpoints is followed.
const followedWithin = time.Second

// followed waits until what is asked on these nodes is what the API server says.
func (n *nodeCaches) followed(t *testing.T, what string, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		eventually(t, followedWithin, what+" to be followed on "+node, func(ctx context.Context) error {
			asked, err := n.upstreams(ctx, node)
			if err != nil {
				return err
			}
			if got, now := slices.Sorted(maps.Keys(asked)), n.slices.now(); !slices.Equal(got, now.ready) {
				return fmt.Errorf("%v are asked and %v are ready", got, now.ready)
			}
			return nil
		})
	}
}

// following watches what is asked on a node while the test changes what is there,
// and how long it is not what the API server says.
type following struct {
	stop chan struct{}
	done chan struct{}
	most time.Duration
	// changes are how often what is asked changed.
	changes int
	failed  error
}

func (n *nodeCaches) follow(ctx context.Context, node string) *following {
	f := &following{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		var last []string
		for {
			asked, err := n.upstreams(ctx, node)
			if err != nil {
				f.failed = err
				return
			}
			got, now := slices.Sorted(maps.Keys(asked)), n.slices.now()
			if last != nil && !slices.Equal(got, last) {
				f.changes++
			}
			last = got
			// None at all is not followed: the last ones known stay.
			if len(now.ready) > 0 && !slices.Equal(got, now.ready) {
				f.most = max(f.most, time.Since(now.at))
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-f.stop:
				return
			}
		}
	}()
	return f
}

func (f *following) end(t *testing.T, node string) {
	t.Helper()
	close(f.stop)
	<-f.done
	if f.failed != nil {
		t.Fatal(f.failed)
	}
	if f.most > followedWithin {
		t.Errorf("on %s, what was asked was not what the API server says for %s, want %s at most", node, f.most, followedWithin)
	}
	if f.changes < 6 {
		t.Errorf("on %s, what was asked changed %d times: the test did not change much", node, f.changes)
	}
	t.Logf("%s followed %d changes, each within %s", node, f.changes, f.most.Round(time.Millisecond))
}

// The upstreams are the ready endpoints, whatever happens to cluster DNS, and no
// pod loses a lookup by it.
func testFollows(t *testing.T, n *nodeCaches) {
	n.followed(t, "cluster DNS", nodeNames...)
	began := time.Now()
	var watched []*following
	for _, node := range nodeNames {
		watched = append(watched, n.follow(t.Context(), node))
	}

	n.scale(t, 3)
	n.scaled(t, 3)
	n.scale(t, 1)
	n.scaled(t, 1)
	n.scale(t, 2)
	pods := n.scaled(t, 2)
	if err := n.client().CoreV1().Pods(system).Delete(t.Context(), pods[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.gone(t, &pods[0])
	pods = n.scaled(t, 2)

	// One that hangs, is not ready, and goes on. All have heard of the other one.
	n.followed(t, "the new pod", nodeNames...)
	n.signal(t, &pods[0], func(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) })
	eventually(t, 20*time.Second, "the one that hangs to be unready", func(context.Context) error {
		if got := n.slices.now().ready; !slices.Equal(got, endpointsOf(pods[1:])) {
			return fmt.Errorf("%v are ready", got)
		}
		return nil
	})
	n.followed(t, "a pod that is not ready", nodeNames...)
	n.signal(t, &pods[0], func(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) })
	pods = n.scaled(t, 2)

	// A node that is emptied: cordoned, which changes nothing, and then its pod is
	// taken away. Not the one that dies later.
	if pods[0].Spec.NodeName == victimNode {
		slices.Reverse(pods)
	}
	before := n.slices.now()
	n.cordon(t, pods[0].Spec.NodeName, true)
	time.Sleep(500 * time.Millisecond)
	if after := n.slices.now(); !after.at.Equal(before.at) {
		t.Errorf("a cordon changed the endpoints to %v", after.ready)
	}
	if err := n.client().CoreV1().Pods(system).Delete(t.Context(), pods[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.gone(t, &pods[0])
	for _, pod := range n.scaled(t, 2) {
		if pod.Spec.NodeName == pods[0].Spec.NodeName {
			t.Errorf("%s is on the node that is cordoned", pod.Name)
		}
	}
	n.cordon(t, pods[0].Spec.NodeName, false)
	n.followed(t, "the end of it", nodeNames...)
	for i, f := range watched {
		f.end(t, nodeNames[i])
	}
	n.hints(t)
	ended := time.Now()
	n.later(t, func(t *testing.T, all lookups.List) {
		list := all.Of(oursAddress+":53", "").Between(began, ended)
		t.Logf("pods of cluster DNS came and went for %s: %s", ended.Sub(began).Round(time.Second), list.Sum())
		noneLost(t, "meanwhile", list, len(clientNodes)*(heldRate+freshRate), began, ended)
	})
}

// gone waits until a pod is no more.
func (n *nodeCaches) gone(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eventually(t, time.Minute, "the end of "+pod.Name, func(ctx context.Context) error {
		pods, err := n.pods(ctx, system, clusterDNS)
		if err == nil && slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.UID == pod.UID }) {
			err = fmt.Errorf("it is there")
		}
		return err
	})
}

// cordon keeps new pods off a node, or no longer.
func (n *nodeCaches) cordon(t *testing.T, node string, on bool) {
	t.Helper()
	n.patchNode(t, node, fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, on))
}

func (n *nodeCaches) patchNode(t *testing.T, node, patch string) {
	t.Helper()
	_, err := n.client().CoreV1().Nodes().Patch(t.Context(), node, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// Where the Service says that near endpoints are preferred, they alone are asked
// while they are well, by what nodes and zones Kubernetes says they are for.
func (n *nodeCaches) hints(t *testing.T) {
	t.Helper()
	pods := n.scaled(t, 2)
	zones := map[string]string{}
	for _, node := range nodeNames {
		zones[node] = "zone-a"
	}
	zones[pods[1].Spec.NodeName] = "zone-b"
	for node, zone := range zones {
		n.patchNode(t, node, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, corev1.LabelTopologyZone, zone))
	}
	for preferred, near := range map[string]func(node string, pod *corev1.Pod) bool{
		corev1.ServiceTrafficDistributionPreferSameZone: func(node string, pod *corev1.Pod) bool { return zones[node] == zones[pod.Spec.NodeName] },
		corev1.ServiceTrafficDistributionPreferSameNode: func(node string, pod *corev1.Pod) bool {
			if node != pods[0].Spec.NodeName && node != pods[1].Spec.NodeName {
				return zones[node] == zones[pod.Spec.NodeName] // has none of its own
			}
			return node == pod.Spec.NodeName
		},
	} {
		n.prefer(t, fmt.Sprintf("%q", preferred))
		n.askedNear(t, preferred, pods, near)
	}
	n.prefer(t, "null")
	// Which one is asked more then is a matter of how fast they are.
	eventually(t, 20*time.Second, "all to be asked again", func(ctx context.Context) error {
		before, err := n.askedTimes(ctx)
		if err != nil {
			return err
		}
		time.Sleep(time.Second)
		after, err := n.askedTimes(ctx)
		if err != nil {
			return err
		}
		for _, node := range nodeNames {
			for address, times := range after[node] {
				if times == before[node][address] {
					return fmt.Errorf("%s does not ask %s", node, address)
				}
			}
		}
		return nil
	})
}

// prefer sets which endpoints the Service prefers, as JSON.
func (n *nodeCaches) prefer(t *testing.T, what string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"trafficDistribution":%s}}`, what)
	_, err := n.client().CoreV1().Services(system).Patch(t.Context(), "kube-dns", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// askedNear waits until every node's cache asks the pods that are near, and no others
// but for a hedge now and then.
func (n *nodeCaches) askedNear(t *testing.T, preferred string, pods []corev1.Pod, near func(string, *corev1.Pod) bool) {
	t.Helper()
	const enough = 4
	took := eventually(t, 20*time.Second, fmt.Sprintf("what is near to be asked, with %s preferred", preferred), func(ctx context.Context) error {
		before, err := n.askedTimes(ctx)
		if err != nil {
			return err
		}
		time.Sleep(400 * time.Millisecond)
		after, err := n.askedTimes(ctx)
		if err != nil {
			return err
		}
		for _, node := range nodeNames {
			for i := range pods {
				address := endpointsOf(pods[i : i+1])[0]
				times := after[node][address] - before[node][address]
				if is := times >= enough; is != near(node, &pods[i]) {
					return fmt.Errorf("%s has asked the pod on %s %d times in 0.4 s", node, pods[i].Spec.NodeName, times)
				}
			}
		}
		return nil
	})
	t.Logf("%s preferred: followed within %s", preferred, took.Round(100*time.Millisecond))
}

// askedTimes is how often every node's cache has asked whom.
func (n *nodeCaches) askedTimes(ctx context.Context) (map[string]map[string]uint64, error) {
	times := map[string]map[string]uint64{}
	for _, node := range nodeNames {
		asked, err := n.upstreams(ctx, node)
		if err != nil {
			return nil, err
		}
		times[node] = map[string]uint64{}
		for address, u := range asked {
			times[node][address] = u.Asked
		}
	}
	return times, nil
}

package chart

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/cluster/lab"
	"firebreakdns.io/firebreak/test/cluster/lookups"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	askerRef = "localhost/asker:test"
	// askRate is what the pods of each node ask a second, half of it over UDP and half
	// over TCP.
	askRate = 300
)

func askerImage(t *testing.T) lab.Image {
	t.Helper()
	file, err := lab.Compile(t.Context(), t.TempDir(), "firebreakdns.io/firebreak/test/cluster/asker")
	if err != nil {
		t.Fatal(err)
	}
	return lab.Binary(askerRef, file)
}

// askers have a pod on every node ask cluster DNS's Service, as its resolv.conf has
// it: names of pods, which are all in the cache after a second.
func (w *world) askers(t *testing.T) (pods []*corev1.Pod) {
	t.Helper()
	for _, c := range w.clients {
		var streams []string
		for _, server := range []string{w.DNSAddress() + ":53", "tcp://" + w.DNSAddress() + ":53"} {
			streams = append(streams, fmt.Sprintf("%s,held,%d,10-1-2-%%d.%s.pod.cluster.local", server, askRate/2, namespace))
		}
		pods = append(pods, w.run(t, "asker-"+c.Spec.NodeName, corev1.PodSpec{
			NodeName:   c.Spec.NodeName,
			Containers: []corev1.Container{{Name: "main", Image: askerRef, ImagePullPolicy: corev1.PullNever, Args: streams}},
		}))
	}
	return pods
}

// asked reads what a pod has asked.
func (w *world) asked(t *testing.T, pod *corev1.Pod) lookups.List {
	t.Helper()
	log, err := w.Client().CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	list, err := lookups.Read(log, pod.Spec.NodeName)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// roll replaces every pod of the node cache, again and again, while the pods of each
// node ask 300 questions a second over UDP and TCP. No node is ever without a ready
// one; none of the questions is lost, no connection is refused or reset.
func (w *world) roll(t *testing.T, values []string) {
	strict := os.Getenv("FIREBREAK_SOAK") != ""
	rolls := 3
	if strict {
		rolls = 10
	}
	askers := w.askers(t)
	time.Sleep(3 * time.Second)
	from := time.Now()
	for n := range rolls {
		w.rollOnce(t, append([]string{"--set", fmt.Sprintf("nodeCache.podAnnotations.change=n%d", n)}, values...))
	}
	to := time.Now()
	time.Sleep(lookups.Patience + time.Second)
	for _, pod := range askers {
		list := w.asked(t, pod).Between(from, to)
		for _, over := range []string{"", "tcp://"} {
			what := map[string]string{"": "UDP", "tcp://": "TCP"}[over]
			asked := list.Of(over+w.DNSAddress()+":53", "")
			t.Logf("%s through %d rolls over %s: %s", pod.Spec.NodeName, rolls, what, asked.Sum())
			if lost := asked.Lost(); len(lost) > 0 {
				t.Errorf("%s lost %d of %d over %s:%s", pod.Spec.NodeName, len(lost), len(asked), what, lost.First())
			}
			// A busy machine makes its own delays.
			if slow := asked.Those(lookups.Lookup.Slow); strict && len(slow) > 0 {
				t.Errorf("%s had no answer to %d of %d within a second over %s:%s", pod.Spec.NodeName, len(slow), len(asked), what, slow.First())
			}
			if want := to.Sub(from).Seconds() * askRate / 2; float64(len(asked)) < 0.8*want {
				t.Errorf("%s asked %d times over %s, want some %.0f", pod.Spec.NodeName, len(asked), what, want)
			}
		}
	}
	for _, pod := range askers {
		if err := w.Client().CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, now); err != nil {
			t.Error(err)
		}
	}
}

// rollOnce replaces every pod, and holds that each node has a ready one throughout,
// and two for a while.
func (w *world) rollOnce(t *testing.T, args []string) {
	t.Helper()
	old := w.pods(t)
	done := make(chan error, 1)
	go func() {
		_, err := helm(t, append([]string{"upgrade", "firebreak", chart}, args...)...)
		done <- err
	}()
	surged, ended := false, false
	for deadline := time.Now().Add(4 * time.Minute); !ended && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			ended = true
		default:
		}
		readyOn, on := map[string]int{}, map[string]int{}
		for _, pod := range w.pods(t) {
			on[pod.Spec.NodeName]++
			if ready(&pod) {
				readyOn[pod.Spec.NodeName]++
			}
		}
		for _, c := range w.clients {
			if readyOn[c.Spec.NodeName] == 0 {
				t.Errorf("%s has no ready node cache during the roll", c.Spec.NodeName)
			}
			surged = surged || on[c.Spec.NodeName] > 1
		}
	}
	if !ended || !surged {
		t.Errorf("The roll ended: %v; a node had two pods: %v; want both", ended, surged)
	}
	for _, pod := range w.pods(t) {
		if slices.ContainsFunc(old, func(o corev1.Pod) bool { return o.Name == pod.Name }) && pod.DeletionTimestamp == nil {
			t.Errorf("%s was not replaced", pod.Name)
		}
	}
}

// now deletes at once.
var now = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}

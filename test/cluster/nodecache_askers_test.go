package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// patience is after what time asker gives a lookup up, and glibc's stub asks again.
	patience = 5 * time.Second
	// slowest is what the quickest of stubs wait for.
	slowest = time.Second
)

// lookup is one of a pod's, as its log has it.
type lookup struct {
	node    string
	sent    time.Time
	took    time.Duration
	server  string
	kind    string
	verdict string
	ttl     int
	ede     int
	name    string
}

func (l lookup) good() bool { return l.verdict == "NOERROR" }
func (l lookup) slow() bool { return l.good() && l.took > slowest }

func (l lookup) String() string {
	return fmt.Sprintf("%s at %s on %s from %s: %s after %s (TTL %d, EDE %d)", l.name, l.sent.Format("15:04:05.000"), l.node, l.server, l.verdict, l.took, l.ttl, l.ede)
}

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
	hold func(t *testing.T, all []lookup)
}

// later holds something of the lookups, in the end.
func (n *nodeCaches) later(t *testing.T, hold func(t *testing.T, all []lookup)) {
	n.checks = append(n.checks, check{t.Name()[strings.LastIndex(t.Name(), "/")+1:], hold})
}

// checkAll holds what is to be held of the lookups, once all of them have had their
// time.
func (n *nodeCaches) checkAll(t *testing.T) {
	time.Sleep(patience + 300*time.Millisecond)
	var all []lookup
	for _, pod := range n.askers {
		if pod.Spec.NodeName != victimNode {
			all = append(all, n.lookups(t, pod)...)
		}
	}
	slices.SortFunc(all, func(a, b lookup) int { return a.sent.Compare(b.sent) })
	for _, c := range n.checks {
		t.Run(c.name, func(t *testing.T) { c.hold(t, all) })
	}
}

// lookups reads a pod's log.
func (n *nodeCaches) lookups(t *testing.T, pod *corev1.Pod) (list []lookup) {
	t.Helper()
	stream, err := n.client().CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	for lines.Scan() {
		l, err := parseLookup(lines.Text())
		if err != nil {
			t.Fatalf("%s says %q: %v", pod.Name, lines.Text(), err)
		}
		l.node = pod.Spec.NodeName
		list = append(list, l)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func parseLookup(line string) (l lookup, err error) {
	var sent, took int64
	_, err = fmt.Sscan(line, &sent, &took, &l.server, &l.kind, &l.verdict, &l.ttl, &l.ede, &l.name)
	l.sent, l.took = time.UnixMicro(sent), time.Duration(took)*time.Microsecond
	return l, err
}

// those are the lookups that fit.
func those(all []lookup, fits func(lookup) bool) (some []lookup) {
	for _, l := range all {
		if fits(l) {
			some = append(some, l)
		}
	}
	return some
}

// of are those to a server, of a kind or, with "", of any.
func of(all []lookup, server, kind string) []lookup {
	return those(all, func(l lookup) bool { return l.server == server+":53" && (kind == "" || l.kind == kind) })
}

// between are those that were sent in a time.
func between(all []lookup, from, to time.Time) []lookup {
	return those(all, func(l lookup) bool { return !l.sent.Before(from) && l.sent.Before(to) })
}

// sum is what came of lookups.
type sum struct {
	all, failed, none, slow int
	p50, p99, most          time.Duration
}

// sumOf counts lookups.
func sumOf(list []lookup) (s sum) {
	var took []time.Duration
	for _, l := range list {
		s.all++
		took = append(took, l.took)
		switch {
		case l.slow():
			s.slow++
		case l.verdict == "none":
			s.none++
		case !l.good():
			s.failed++
		}
	}
	if slices.Sort(took); len(took) > 0 {
		s.p50, s.p99, s.most = took[len(took)/2], took[(len(took)*99)/100], took[len(took)-1]
	}
	return s
}

func (s sum) String() string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
	return fmt.Sprintf("%6d lookups, %4d lost (%d failed, %d without an answer in 5 s), %d slower than 1 s; P50 %s ms, P99 %s ms, at most %s ms",
		s.all, s.failed+s.none, s.failed, s.none, s.slow, ms(s.p50), ms(s.p99), ms(s.most))
}

// noneLost holds that none was lost, and that enough were asked in that time.
func noneLost(t *testing.T, what string, list []lookup, rate int, from, to time.Time) {
	t.Helper()
	if lost := those(list, func(l lookup) bool { return !l.good() }); len(lost) > 0 {
		t.Errorf("%s, %d of %d lookups were lost:%s", what, len(lost), len(list), first(lost))
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
func noneSlow(t *testing.T, what string, list []lookup) {
	t.Helper()
	if slow := those(list, lookup.slow); len(slow) > 0 {
		t.Errorf("%s, %d of %d lookups took longer than %s:%s", what, len(slow), len(list), slowest, first(slow))
	}
}

// first are the first few, for a message.
func first(list []lookup) string {
	var text strings.Builder
	for _, l := range list[:min(len(list), 5)] {
		fmt.Fprintf(&text, "\n\t%s", l)
	}
	return text.String()
}

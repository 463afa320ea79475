package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// state is what a node's cache says at its control socket.
func (n *nodeCaches) state(ctx context.Context, node string) (*protocol.State, error) {
	dir, err := os.Open(filepath.Join(n.Disk(node), cacheDir))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	// By way of the folder, since a socket's path may not be long.
	socket := fmt.Sprintf("/proc/self/fd/%d/control.sock", dir.Fd())
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://control"+protocol.PathState, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	var s protocol.State
	return &s, json.NewDecoder(answer.Body).Decode(&s)
}

// upstreams are those of a node's cache, by address.
func (n *nodeCaches) upstreams(ctx context.Context, node string) (map[string]protocol.UpstreamState, error) {
	s, err := n.state(ctx, node)
	if err != nil {
		return nil, err
	}
	all := map[string]protocol.UpstreamState{}
	for _, u := range s.Upstreams {
		all[u.Address] = u
	}
	return all, nil
}

// metric is the sum of a metric's series that have these labels, as a node's cache
// says it now.
func (n *nodeCaches) metric(t *testing.T, node, name string, labels ...string) float64 {
	t.Helper()
	object, err := n.client().CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("http://%s/metrics", net.JoinHostPort(object.Status.Addresses[0].Address, strconv.Itoa(metricsPort)))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	sum, found := 0.0, false
	for line := range strings.Lines(string(text)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		if slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(series, l) }) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		sum, found = sum+number, true
	}
	if !found {
		t.Errorf("%s has no metric %s with %v", node, name, labels)
	}
	return sum
}

// scale sets how many pods cluster DNS has.
func (n *nodeCaches) scale(t *testing.T, replicas int) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	_, err := n.client().AppsV1().Deployments(system).Patch(t.Context(), clusterDNS, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// scaled waits until cluster DNS has that many pods that are ready and none that
// ends, and until its endpoints say so.
func (n *nodeCaches) scaled(t *testing.T, replicas int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	eventually(t, time.Minute, fmt.Sprintf("%d pods of cluster DNS", replicas), func(ctx context.Context) (err error) {
		if pods, err = n.pods(ctx, system, clusterDNS); err != nil {
			return err
		}
		if len(pods) != replicas {
			return fmt.Errorf("there are %d", len(pods))
		}
		for i := range pods {
			if !ready(&pods[i]) {
				return fmt.Errorf("%s is not ready", pods[i].Name)
			}
		}
		if got := n.slices.now().ready; !slices.Equal(got, endpointsOf(pods)) {
			return fmt.Errorf("the endpoints are %v", got)
		}
		return nil
	})
	return pods
}

// endpointsOf are the pods' addresses as upstreams, sorted.
func endpointsOf(pods []corev1.Pod) []string {
	list := []string{}
	for _, pod := range pods {
		if a, err := netip.ParseAddr(pod.Status.PodIP); err == nil {
			list = append(list, netip.AddrPortFrom(a, 53).String())
		}
	}
	slices.Sort(list)
	return list
}

// processes are those of a pod's containers that run a program, as the host
// numbers them.
func (n *nodeCaches) processes(t *testing.T, pod *corev1.Pod, program string) []int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var list []int
	for _, file := range found {
		groups, err := os.Open(file)
		if err != nil {
			continue // it has ended
		}
		in := false
		for lines := bufio.NewScanner(groups); lines.Scan(); {
			in = in || strings.Contains(lines.Text(), n.Name()+"/") && strings.Contains(lines.Text(), string(pod.UID))
		}
		groups.Close()
		dir := filepath.Dir(file)
		exe, err := os.Readlink(filepath.Join(dir, "exe"))
		if !in || err != nil || filepath.Base(exe) != program {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, pid)
	}
	return list
}

// signal sends a signal to a pod's server.
func (n *nodeCaches) signal(t *testing.T, pod *corev1.Pod, send func(pid int) error) {
	t.Helper()
	pids := n.processes(t, pod, "coredns")
	if len(pids) != 1 {
		t.Fatalf("pod %s runs the processes %v, want one", pod.Name, pids)
	}
	if err := send(pids[0]); err != nil {
		t.Fatal(err)
	}
}

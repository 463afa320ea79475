package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"firebreakdns.io/firebreak/test/cluster/lab"
)

// TestSideBySide has two clusters up at once, with pods of the same name on
// nodes of the same name. One is taken down, and the other does not notice.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	pictures := images(t)
	var left, right *world
	var wait sync.WaitGroup
	t.Run("up", func(t *testing.T) {
		// Their ends are this test's, not the subtest's.
		for name, w := range map[string]**world{"left": &left, "right": &right} {
			wait.Go(func() {
				c, err := lab.Up(t.Context(), lab.Options{Name: lab.NameFor(t, name), Nodes: 1, Images: pictures, Out: t.Output()})
				if err != nil {
					t.Error(err)
					return
				}
				*w = &world{c}
			})
		}
		wait.Wait()
	})
	for _, w := range []*world{left, right} {
		if w != nil {
			t.Cleanup(func() {
				if err := w.Down(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if left == nil || right == nil {
		t.FailNow()
	}
	if left.Server() == right.Server() {
		t.Fatalf("both have the API server %s", left.Server())
	}
	// The caller's default namespace, so that even that is the same.
	for side, w := range map[string]*world{"left": left, "right": right} {
		pod := w.run(t, "default", "same", nil, clientSpec())
		w.exec(t, pod, "sh", "-c", "echo "+side+" >/tmp/side")
	}
	if err := left.Down(); err != nil {
		t.Fatal(err)
	}
	pod, err := right.client().CoreV1().Pods("default").Get(t.Context(), "same", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := right.exec(t, pod, "cat", "/tmp/side"); got != "right" {
		t.Errorf("the right cluster's pod says %q", got)
	}
	right.run(t, "default", "another", nil, clientSpec())
}

// TestControlPlaneOnly is the form without nodes: the API and the controllers
// work, and no pod is scheduled.
func TestControlPlaneOnly(t *testing.T) {
	t.Parallel()
	started := time.Now()
	w := &world{lab.Start(t, lab.Options{})}
	t.Logf("up after %s", time.Since(started).Round(100*time.Millisecond))
	version, err := w.client().Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.GitVersion != "v"+lab.Kubernetes || version.Minor != strings.Split(lab.Kubernetes, ".")[1] {
		t.Errorf("the API server says that it is %s (minor %s), want %s", version.GitVersion, version.Minor, lab.Kubernetes)
	}
	ns := w.namespace(t)
	pod, err := w.client().CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "waits"}, Spec: clientSpec()}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the scheduler to find no node", func(ctx context.Context) error {
		pod, err = w.client().CoreV1().Pods(ns).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Reason == corev1.PodReasonUnschedulable {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", pod.Status.Conditions)
	})
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What changes in a ConfigMap or a Secret changes in the pods that mount it,
// with the kubelet's own delay.
func testConfig(t *testing.T, w *world) {
	ns := w.namespace(t)
	maps, secrets := w.client().CoreV1().ConfigMaps(ns), w.client().CoreV1().Secrets(ns)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"value": "one"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, StringData: map[string]string{"value": "one"}}
	if _, err := maps.Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	spec := clientSpec()
	spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}}},
	}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/config"}, {Name: "secret", MountPath: "/secret"}}
	pod := w.run(t, ns, "reader", nil, spec)
	if got := w.exec(t, pod, "cat", "/config/value", "/secret/value"); got != "oneone" {
		t.Fatalf("the pod reads %q at first", got)
	}
	config.Data["value"], secret.StringData["value"] = "two", "two"
	if _, err := maps.Update(t.Context(), config, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	took := eventually(t, 150*time.Second, "both changes in the pod", func(context.Context) error {
		time.Sleep(time.Second)
		if got := w.exec(t, pod, "cat", "/config/value", "/secret/value"); got != "twotwo" {
			return fmt.Errorf("it reads %q", got)
		}
		return nil
	})
	t.Logf("the changes reached the pod within %s", took.Round(time.Second))
}

// A folder of the host is the node's own, and is there after a pod.
func testHostPath(t *testing.T, w *world) {
	ns, kind := w.namespace(t), corev1.HostPathDirectoryOrCreate
	read := func(name, node, command string) string {
		spec := clientSpec()
		spec.NodeName = node
		spec.Volumes = []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/truth", Type: &kind},
		}}}
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "host", MountPath: "/host"}}
		return w.exec(t, w.run(t, ns, name, nil, spec), "sh", "-c", command)
	}
	read("writer", "node1", "echo here >/host/file")
	if got := read("reader", "node1", "cat /host/file"); got != "here" {
		t.Errorf("a second pod on the node reads %q", got)
	}
	if got := read("stranger", "node2", "ls /host"); got != "" {
		t.Errorf("a pod on another node sees %q", got)
	}
	testHostFiles(t, w, ns)
}

// hostFiles is where a pod that has all of a node's file tree tries to write.
func hostFiles() []string {
	return []string{
		"/", "/boot", "/dev", "/dev/shm", "/etc", "/home", "/lib", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/usr", "/usr/bin",
		"/usr/local", "/usr/local/bin", "/var", "/var/cache", "/var/lib", "/var/log", "/var/spool", "/var/tmp",
	}
}

// testHostFiles has a pod write all over its node. None of that may reach the
// host, nor may the pod read what only the host has.
func testHostFiles(t *testing.T, w *world, ns string) {
	kind := corev1.HostPathDirectory
	spec := clientSpec()
	spec.NodeName = "node1"
	spec.Volumes = []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/", Type: &kind}}}}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "host", MountPath: "/host"}}
	pod := w.run(t, ns, "everywhere", nil, spec)
	mark := "firebreak-" + w.Name()
	for _, dir := range hostFiles() {
		name := filepath.Join(dir, mark)
		// It may be refused.
		said := w.exec(t, pod, "sh", "-c", "echo here >/host"+name+" && cat /host"+name+" || true")
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("what the pod wrote to %s of its node (%q) is on the host", name, said)
			_ = os.Remove(name)
		}
	}
	for _, dir := range []string{"/srv", "/root", "/usr/local", "/var/cache"} {
		name := filepath.Join(dir, mark)
		if got := w.exec(t, pod, "cat", "/host"+name); got != "here" {
			t.Errorf("the pod wrote to %s of its node and reads %q", name, got)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{w.KubeconfigPath(), filepath.Join(filepath.Dir(w.KubeconfigPath()), "pki", "ca.key"), filepath.Join(here, "truth_config_test.go")} {
		if _, err := os.Stat(name); err != nil {
			t.Fatal(err)
		}
		if out, err := w.Exec(t.Context(), ns, pod.Name, "", "head", "-c", "20", "/host"+name); err == nil {
			t.Errorf("the pod reads the host's %s: %q", name, out)
		}
	}
}

// The client image's resolvers are the C libraries' own.
func testClients(t *testing.T, w *world) {
	ns, spec := w.namespace(t), clientSpec()
	spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"seven.test"}}}
	pod := w.run(t, ns, "clients", nil, spec)
	for _, command := range [][]string{{"getent", "ahostsv4", "seven.test"}, {"lookup-musl", "seven.test"}} {
		out, err := w.Exec(t.Context(), ns, pod.Name, "", command...)
		if err != nil || !strings.HasPrefix(out, "192.0.2.7") {
			t.Errorf("%v: %q, %v", command, out, err)
		}
	}
	if out := w.exec(t, pod, "drill", "-v"); !strings.Contains(out, "ldns") {
		t.Errorf("drill -v says %q", out)
	}
	want := "nameserver " + w.DNSAddress()
	if got := w.exec(t, pod, "cat", "/etc/resolv.conf"); !strings.Contains(got, want) || !strings.Contains(got, "ndots:5") {
		t.Errorf("the pod's resolv.conf is %q, want %q and ndots:5 in it", got, want)
	}
}

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestCommand goes through the command as a person would: each is a process of
// its own, and the cluster outlives all of them.
func TestCommand(t *testing.T) {
	t.Parallel()
	c := newCleaner(t, 1)
	t.Cleanup(func() { c.run(t, "down") })
	c.run(t, "up", "--nodes", "1")
	said := func(want string, words ...string) {
		t.Helper()
		if out := c.run(t, words...); !strings.Contains(out, want) {
			t.Errorf("cluster %s says %q, want %q in it", strings.Join(words, " "), out, want)
		}
	}
	said("node2 is Ready", "node", "add")
	said(c.name+": up, ", "status")
	said("Ready: True", "status")
	mac := func() string { return c.run(t, "exec", "control", "cat", "/sys/class/net/machines/address") }
	before := mac()
	c.run(t, "node", "kill", "node2")
	said("node2: dead", "status")
	if now := mac(); now != before {
		t.Errorf("the bridge's link address was %s and is %s when a node is gone: neighbours lose the API server", before, now)
	}
	c.run(t, "node", "revive", "node2")
	// Any static program will do.
	c.run(t, "image", "localhost/any:1", c.command)
	for _, node := range []string{"node1", "node2"} {
		said("localhost/any:1", "exec", node, "ctr", "--namespace", "k8s.io", "images", "list", "--quiet")
	}
	said("/"+c.name+"/kubeconfig", "kubeconfig")
	said("/"+c.name+"/machines", "logs")
	for words, want := range map[string]string{
		"up":               "is up",
		"node kill node9":  "no machine",
		"node kill":        "NODE is missing",
		"node revive node": "no machine",
		"nonsense":         "no such command",
		"down " + c.name:   "too much",
		"image x /bin/sh":  "not static",
	} {
		out, err := c.try(t, strings.Fields(words)...)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("cluster %s says %q (%v), want an error with %q", words, out, err, want)
		}
	}
	var ended *exec.ExitError
	if out, err := c.try(t, "exec", "node1", "sh", "-c", "exit 7"); !errors.As(err, &ended) || ended.ExitCode() != 7 || out != "" {
		t.Errorf("a command on a machine exits with 7, and exec says %q (%v)", out, err)
	}
	c.run(t, "node", "remove", "node2")
	c.run(t, "down")
	if out := c.run(t, "status"); strings.Contains(out, fmt.Sprintf("%s: ", c.name)) {
		t.Errorf("after down, status says %q", out)
	}
}

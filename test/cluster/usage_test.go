package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"firebreakdns.io/firebreak/test/cluster/lab"
)

// TestUsage calls commands with what they do not take. Each is refused before it
// does anything, and says how it is called.
func TestUsage(t *testing.T) {
	for words, want := range map[string]string{
		"":                             "no command",
		"nonsense":                     "no such command: nonsense",
		"node":                         "no such command: node",
		"down f5e":                     "too much: f5e",
		"up foo":                       "too much: foo",
		"up foo --nodes 0":             "too much: foo",
		"node add a b":                 "too much: a b",
		"node kill node1 node2":        "too much: node2",
		"node kill":                    "NODE is missing",
		"image localhost/x:1":          "FILE is missing",
		"image localhost/x:1 file two": "too much: two",
		"exec node1":                   "COMMAND... is missing",
		"status dev":                   "too much: dev",
		"build kubelet":                "too much: kubelet",
		"build --name dev":             "not defined: -name",
		"status --name dev":            "not defined: -name",
		"down --nodes 0":               "not defined: -nodes",
		"node add --nodes 2":           "not defined: -nodes",
		"kubeconfig --foreground":      "not defined: -foreground",
		"packages --foreground":        "not defined: -foreground",
		"up --nodes many":              "invalid value",
	} {
		err := run(t.Context(), strings.Fields(words))
		if !errors.As(err, &misuse{}) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "usage: go run ./test/cluster") {
			t.Errorf("cluster %s: %v, want an error with %q and the usage", words, err, want)
		}
	}
	for _, words := range []string{"help", "-h", "--help", "up --help", "node add -h"} {
		if err := run(t.Context(), strings.Fields(words)); err != nil {
			t.Errorf("cluster %s: %v", words, err)
		}
	}
}

// TestEveryCommandSaysWhatItTakes keeps flags and arguments of all commands in
// step with what parse lets through.
func TestEveryCommandSaysWhatItTakes(t *testing.T) {
	for _, c := range commands() {
		args := strings.Fields(c.args)
		if _, got, err := c.parse(args); err != nil || len(got) != len(args) {
			t.Errorf("%s refuses the arguments of its usage: %v", c.words, err)
		}
		for _, name := range c.flags {
			if !strings.Contains(c.usage(), "-"+name) {
				t.Errorf("the usage of %s does not have --%s", c.words, name)
			}
		}
	}
}

// TestNotRoot asks as nobody, to whom a cluster looks as if it were not there.
func TestNotRoot(t *testing.T) {
	lab.Require(t)
	dir := t.TempDir()
	command, err := lab.Compile(t.Context(), dir, "firebreakdns.io/firebreak/test/cluster")
	if err != nil {
		t.Fatal(err)
	}
	// Nobody must get as far as the program.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"status", "down", "up", "kubeconfig", "logs", "node add", "node kill node1", "exec node1 true"} {
		cmd := exec.Command(command, strings.Fields(words)...)
		cmd.Env = []string{"HOME=/nonexistent"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		var ended *exec.ExitError
		if !errors.As(err, &ended) || !strings.Contains(string(out), "needs root") {
			t.Errorf("cluster %s as nobody says %q (%v), want that it needs root", words, out, err)
		}
	}
}

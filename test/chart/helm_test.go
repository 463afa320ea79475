package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"firebreakdns.io/firebreak/test/cluster/lab"
)

// root is the tree that is tested, and chart the chart in it.
var (
	root  = filepath.Join("..", "..")
	chart = filepath.Join(root, "charts", "firebreak")
)

// helmProgram is helm, built once into the cache of the test cluster.
var helmProgram = sync.OnceValues(func() (string, error) { return lab.Helm(bg, os.Stderr) })

// helm runs helm with a home of its own, and returns what it printed.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("Builds helm: not with -short")
	}
	program, err := helmProgram()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG=/none")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// render is all that the chart makes of a file of values.
func render(t *testing.T, values string, more ...string) (string, error) {
	t.Helper()
	args := []string{"template", "firebreak", chart, "--namespace", "kube-system", "--values", values}
	return helm(t, append(args, more...)...)
}

// valueSets are the files of values that the tests go through, by name.
func valueSets(t *testing.T) map[string]string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", "*.values.yaml"))
	if err != nil || len(found) == 0 {
		t.Fatalf("No values in testdata: %v", err)
	}
	sets := map[string]string{}
	for _, file := range found {
		sets[strings.TrimSuffix(filepath.Base(file), ".values.yaml")] = file
	}
	return sets
}

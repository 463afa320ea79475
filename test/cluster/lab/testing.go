package lab

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LogsEnv names the environment variable that says where Start keeps the logs
// of a failed test; without it, a folder for temporary files is used.
const LogsEnv = "FIREBREAK_CLUSTER_LOGS"

// Require skips a test where a cluster cannot run, with the reason. If CI is
// set, the test fails instead: there, a missing package is a mistake. Who is not
// root cannot help it, and is skipped there too. It does not build the programs,
// since go test ends a test after ten minutes.
func Require(t testing.TB) {
	t.Helper()
	err := Missing()
	if err == nil {
		var built bool
		if built, err = Built(); err == nil && !built {
			err = errors.New("the cluster's programs are not built: run `go run ./test/cluster build` once, which takes about 13 minutes")
		}
	}
	if err == nil {
		return
	}
	if mistake(err, os.Getenv("CI") != "") {
		t.Fatal(err)
	}
	t.Skipf("skipped: %v", err)
}

// mistake says whether a test must fail, and not be skipped, for what a cluster
// lacks.
func mistake(err error, ci bool) bool { return ci && !errors.Is(err, errNotRoot) }

// Start starts a cluster for a test and takes it down when the test ends. It
// does what Require does first. When the test fails, the logs and
// the cluster's objects are kept and their folder is printed. A Name is not
// needed: without one, it is that of NameFor.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	Require(t)
	if options.Name == "" {
		options.Name = NameFor(t)
	}
	if options.Out == nil {
		options.Out = t.Output()
	}
	c, err := Up(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			dir, err := c.keep(context.Background())
			t.Logf("logs and objects of the cluster are in %s (%v)", dir, err)
		}
		if err := c.Down(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// keep copies all that may say why a test failed, and returns the folder.
func (c *Cluster) keep(ctx context.Context) (string, error) {
	root := os.Getenv(LogsEnv)
	if root != "" {
		if err := os.MkdirAll(root, 0o755); err != nil {
			return "", err
		}
	}
	dir, err := os.MkdirTemp(root, "firebreak-"+c.name+"-")
	if err != nil {
		return "", err
	}
	return dir, errors.Join(c.KeepLogs(dir), c.keepObjects(ctx, dir))
}

// keepObjects writes what the API server has of pods, nodes and the like.
func (c *Cluster) keepObjects(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	all := metav1.ListOptions{}
	core, errs := c.client.CoreV1(), []error{os.MkdirAll(dir, 0o755)}
	keep := func(name string, list any, err error) {
		var content []byte
		if err == nil {
			content, err = json.MarshalIndent(list, "", "  ")
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".json"), content, 0o644)
		}
		errs = append(errs, err)
	}
	nodes, err := core.Nodes().List(ctx, all)
	keep("nodes", nodes, err)
	pods, err := core.Pods("").List(ctx, all)
	keep("pods", pods, err)
	services, err := core.Services("").List(ctx, all)
	keep("services", services, err)
	events, err := core.Events("").List(ctx, all)
	keep("events", events, err)
	slices, err := c.client.DiscoveryV1().EndpointSlices("").List(ctx, all)
	keep("endpointslices", slices, err)
	return errors.Join(errs...)
}

package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// programs are ours, built once.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "firebreak-chart")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "./build/coredns", "./build/image")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	return dir, cmd.Run()
})

// builtPrograms says that there is something to remove.
var builtPrograms bool

func removePrograms() {
	if dir, err := programs(); builtPrograms && err == nil {
		_ = os.RemoveAll(dir)
	}
}

// program is the file of a program of ours.
func program(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("Builds the DNS server: not with -short")
	}
	builtPrograms = true
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// corefileOf is the Corefile in what was rendered.
func corefileOf(t *testing.T, rendered string) string {
	t.Helper()
	for _, o := range objects(t, rendered) {
		if o.GetKind() != "ConfigMap" {
			continue
		}
		var m corev1.ConfigMap
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &m); err != nil {
			t.Fatal(err)
		}
		return m.Data["Corefile"]
	}
	t.Fatal("No ConfigMap was rendered")
	return ""
}

// The wire path's state of a server block.
var wireActive = regexp.MustCompile(`coredns_nodecache_wire_active\{reason="([^"]*)",server="[^"]*",zone="([^"]*)"\} ([01])`)

// Every Corefile of the chart starts on our binary with nothing changed. It is ready
// where somebody can be asked, and says why not where it needs a cluster for that;
// and hits go the fast way in all of its server blocks.
func TestCorefilesStart(t *testing.T) {
	coredns := program(t, "coredns")
	for name, values := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			rendered, err := render(t, values)
			if err != nil {
				t.Fatal(err)
			}
			corefile := corefileOf(t, rendered)
			if _, err := exec.LookPath("iptables"); err != nil && strings.Contains(corefile, "rules iptables") {
				t.Skip("No iptables here: apt-get install iptables")
			}
			var got seen
			onHost(t, &got, "start", coredns, corefile)
			if got.Error != "" {
				t.Fatalf("The Corefile does not start: %s\n%s\nIt was:\n%s", got.Error, got.Log, corefile)
			}
			// A Service's own address is asked until its pods are known.
			ready := !strings.Contains(corefile, "kubernetes ") || strings.Contains(corefile, "fallback ")
			if isReady := strings.HasSuffix(got.Ready, ": ready"); isReady != ready {
				t.Errorf("Ready: %q, want %v\n%s", got.Ready, ready, got.Log)
			}
			if !ready && !strings.Contains(got.Ready, "hedge: no upstream of ") {
				t.Errorf("Why it is not ready: %q, want that no upstream is known", got.Ready)
			}
			if onNode := strings.Contains(corefile, "nodelocal "); !ready && onNode && !(strings.Contains(got.Ready, "nodelocal: ") && strings.Contains(got.Ready, " is not captured: ")) {
				t.Errorf("Why it is not ready: %q, want why the address is not captured", got.Ready)
			}
			if !strings.Contains(corefile, "prometheus") {
				return
			}
			blocks := wireActive.FindAllStringSubmatch(got.Metrics, -1)
			if len(blocks) < 4 { // the chart's own zones
				t.Errorf("The fast way is in %d server blocks, want all of them\n%s", len(blocks), got.Log)
			}
			for _, b := range blocks {
				reason, zone, on := b[1], b[2], b[3] == "1"
				switch {
				case zone == "lab.example.": // the values' own, without a cache
				case strings.Contains(corefile, "\n    log\n"):
					if on || !strings.HasPrefix(reason, "log stands ahead") {
						t.Errorf("With log, the fast way of %s is on: %v (%s), want that log turns it off", zone, on, reason)
					}
				case !on:
					t.Errorf("The fast way of %s is off: %s", zone, reason)
				}
			}
		})
	}
}

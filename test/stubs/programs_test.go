//go:build linux

package stubs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "firebreakdns.io/firebreak"

// builtDir is where our programs are, until the tests are over.
var builtDir string

// programs are ours, built once for all tests of a run.
var programs = sync.OnceValue(func() (err error) {
	if builtDir, err = tempDir(); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-o", builtDir+"/", module+"/build/coredns", module+"/build/controller")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
})

func built(t *testing.T) string {
	t.Helper()
	if err := programs(); err != nil {
		t.Fatal(err)
	}
	return builtDir
}

// skewedCoreDNS builds a coredns whose clock is off by FIREBREAK_TEST_CLOCK_OFFSET.
//
// It is built from the product's own sources with one change, made on the way to
// the compiler (go build -overlay): wherever a plugin of ours reads the clock, it
// reads it through a function that adds the offset. So no product binary has such
// a switch, every reading is covered, also those that will be written later, and
// the sources cannot drift apart.
func skewedCoreDNS(dir string) (string, error) {
	const call, instead = "time.Now()", "skewedNow()"
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", err
	}
	plugins := filepath.Join(strings.TrimSpace(string(root)), "plugin")
	overlay := map[string]string{}
	packages := map[string]string{} // folder to the package's name
	n := 0
	put := func(original, text string) error {
		n++
		path := filepath.Join(dir, fmt.Sprintf("overlay%d.go", n))
		overlay[original] = path
		return os.WriteFile(path, []byte(text), 0o600)
	}
	err = filepath.WalkDir(plugins, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), call) || strings.Contains(path, "test"+string(filepath.Separator)) {
			return err
		}
		folder := filepath.Dir(path)
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "package "); ok {
				packages[folder] = strings.TrimSpace(name)
				break
			}
		}
		// What imports time for nothing else still imports it.
		return put(path, strings.ReplaceAll(string(text), call, instead)+"\nvar _ time.Time\n")
	})
	if err != nil {
		return "", err
	}
	for folder, name := range packages {
		if err := put(filepath.Join(folder, "skewed.go"), strings.ReplaceAll(skewSource, "PACKAGE", name)); err != nil {
			return "", err
		}
	}
	if !slices.ContainsFunc(keys(overlay), func(p string) bool { return strings.HasSuffix(p, "clients/moment.go") }) {
		return "", fmt.Errorf("no %s in plugin/clients/moment.go: the clock is read elsewhere now, so say here where", call)
	}
	file, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "coredns-skewed")
	b, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-overlay", file, "-o", bin, module+"/build/coredns")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return bin, nil
}

const envOffset = "FIREBREAK_TEST_CLOCK_OFFSET"

const skewSource = `package PACKAGE

import (
	"os"
	"time"
)

var skewedBy, _ = time.ParseDuration(os.Getenv("` + envOffset + `"))

func skewedNow() time.Time { return time.Now().Add(skewedBy) }
`

func keys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}

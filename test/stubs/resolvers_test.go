//go:build linux

package stubs

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/test/stubs/lab"
)

var update = flag.Bool("update", false, "write docs/resolvers.md and its picture from what was measured")

// labFor makes a lab, or skips the test with the reason.
func labFor(t *testing.T) *lab.Lab {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: network namespaces need root: run it as root (sudo -E go test ./test/stubs)")
	}
	l, err := lab.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// rows are those of the list that this machine can run.
func rowsFor(t *testing.T) []row {
	t.Helper()
	dir, err := filepath.Abs("resolvers")
	if err != nil {
		t.Fatal(err)
	}
	all, err := readRows(dir)
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	var packages, left []string
	for _, r := range all {
		missing, err := r.missing()
		if err != nil {
			t.Fatal(err)
		}
		if len(missing) == 0 {
			rows = append(rows, r)
			continue
		}
		left = append(left, r.Name)
		packages = append(packages, missing...)
	}
	if len(left) > 0 {
		slices.Sort(packages)
		t.Logf("left out: %s. For them: apt-get install %s", strings.Join(left, ", "), strings.Join(slices.Compact(packages), " "))
	}
	return rows
}

// TestResolvers drills every resolver in both modes.
func TestResolvers(t *testing.T) {
	l := labFor(t)
	rows := rowsFor(t)
	f := startFleet(t, l, fleetOptions{coredns: filepath.Join(built(t), "coredns")})
	clients := makeClients(t, f, rows)
	var matrices []*matrix
	for _, d := range []drill{
		{label: "drop", mode: protocol.ModeDrop, seconds: 30},
		{label: "refused", mode: protocol.ModeRefused, seconds: 20},
	} {
		m := measure(t, f, clients, d)
		t.Run(d.label, func(t *testing.T) {
			m.check(t)
			m.checkConntrack(t)
		})
		matrices = append(matrices, m)
	}
	if *update {
		if err := writePage(matrices); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Run("page", func(t *testing.T) {
		for _, m := range matrices {
			comparePage(t, m)
		}
	})
}

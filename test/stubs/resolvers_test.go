//go:build linux

package stubs

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/test/stubs/lab"
	"firebreakdns.io/firebreak/test/stubs/wire"
)

var update = flag.Bool("update", false, "write docs/resolvers.md and its picture from what was measured")

// matrix is one drill with every client.
type matrix struct {
	mode    protocol.DrillMode
	seconds int
	report  *run.Report
	outage  outage
	cells   []*cell
}

// cell is one client in one drill.
type cell struct {
	seen
	truth
	report *run.ClientReport // nil: the report does not have it
}

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

// runMatrix starts the clients, drills the first server for all of them, and
// collects what happened to each.
func runMatrix(t *testing.T, f *fleet, clients []*client, mode protocol.DrillMode, seconds int) *matrix {
	t.Helper()
	captures := make([]*wire.Capture, serverCount)
	for i := range serverCount {
		c, err := wire.Start(f.servers[i].Namespace())
		if err != nil {
			t.Fatal(err)
		}
		captures[i] = c
	}
	label := string(mode)
	var addresses []string
	for _, c := range clients {
		if err := c.start(context.Background(), label); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		addresses = append(addresses, c.host.Addr.String())
	}
	if err := f.api.seen(t.Context(), addresses); err != nil {
		for _, c := range clients {
			t.Logf("%s: %s", c.Name, tail(c.process[len(c.process)-1].Output(), 2))
		}
		t.Fatal(err)
	}
	report, err := f.api.drill(t.Context(), view.DrillRequest{
		Mode: mode, DurationSeconds: seconds, Readiness: protocol.ReadinessPass, Clients: []string{clientNet.String()},
		Reason: "what does each resolver do?",
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Started == nil || report.Ended == nil {
		t.Fatalf("nothing was drilled: %s, %s: %s", report.Outcome, report.Reason, report.Message)
	}
	m := &matrix{mode: mode, seconds: seconds, report: report, outage: outage{serverAddr(0), *report.Started, *report.Ended}}
	m.collect(t, clients, captures)
	return m
}

// collect ends the clients and finds out what happened to each.
func (m *matrix) collect(t *testing.T, clients []*client, captures []*wire.Capture) {
	t.Helper()
	captured := time.Now()
	var all []seen
	for _, c := range clients {
		s, err := c.stop()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	var arrived []wire.Packet
	for _, c := range captures {
		packets, err := c.Stop()
		if err != nil {
			t.Fatal(err)
		}
		arrived = append(arrived, packets...)
	}
	for _, s := range all {
		if n := wire.Located(s.queries, serviceAddr, s.addr, arrived); n > 0 {
			t.Errorf("%s: %d queries to the Service arrived at no server", s.Name, n)
		}
		c := &cell{seen: s, truth: findTruth(s.queries, m.outage, captured)}
		if i := slices.IndexFunc(m.report.Clients, func(r run.ClientReport) bool { return r.Address == s.addr.String() }); i >= 0 {
			c.report = &m.report.Clients[i]
		}
		m.cells = append(m.cells, c)
	}
}

// TestResolvers drills every resolver in both modes.
func TestResolvers(t *testing.T) {
	l := labFor(t)
	rows := rowsFor(t)
	f := startFleet(t, l, fleetOptions{coredns: filepath.Join(built(t), "coredns")})
	clients := makeClients(t, f, rows)
	for _, c := range []struct {
		mode    protocol.DrillMode
		seconds int
	}{{protocol.ModeDrop, 30}, {protocol.ModeRefused, 15}} {
		m := runMatrix(t, f, clients, c.mode, c.seconds)
		t.Run(string(c.mode), m.check)
	}
}

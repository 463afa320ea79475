//go:build linux

package stubs

import (
	"context"
	"slices"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/test/stubs/wire"
)

// drill is what is asked for.
type drill struct {
	label   string // of the names that are looked up meanwhile
	server  int    // that is taken away; 0 is the first one in every resolv.conf
	mode    protocol.DrillMode
	seconds int
}

// matrix is one drill with every client.
type matrix struct {
	drill
	report *run.Report
	outage outage
	cells  []*cell
}

// cell is one client in one drill.
type cell struct {
	seen
	truth
	report *run.ClientReport // nil: the report does not have it
}

// runMatrix starts the clients, drills a server for all of them at once, and
// collects what happened to each.
func runMatrix(t *testing.T, f *fleet, clients []*client, d drill) *matrix {
	t.Helper()
	captures := make([]*wire.Capture, serverCount)
	for i := range serverCount {
		c, err := wire.Start(f.servers[i].Namespace())
		if err != nil {
			t.Fatal(err)
		}
		captures[i] = c
	}
	var addresses []string
	for _, c := range clients {
		if err := c.start(context.Background(), d.label); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		addresses = append(addresses, c.host.Addr.String())
	}
	by := ""
	if d.server == 0 {
		by = serverName(0) // which everybody asks
	}
	if err := f.api.seen(t.Context(), addresses, by); err != nil {
		for _, c := range clients {
			t.Logf("%s: %s", c.Name, tail(c.process[len(c.process)-1].Output(), 2))
		}
		t.Fatal(err)
	}
	// The server stays in its Service: nobody takes it out, as in the time before
	// anybody notices that a node is dead.
	report, err := f.api.drill(t.Context(), serverName(d.server), view.DrillRequest{
		Mode: d.mode, DurationSeconds: d.seconds, Readiness: protocol.ReadinessPass, Clients: []string{clientNet.String(), clientNet6.String()},
		Reason: "what does each resolver do?",
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Started == nil || report.Ended == nil {
		t.Fatalf("nothing was drilled: %s, %s: %s", report.Outcome, report.Reason, report.Message)
	}
	m := &matrix{drill: d, report: report, outage: outage{serverAddr(d.server), *report.Started, *report.Ended}}
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

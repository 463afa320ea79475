//go:build linux

package stubs

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// skewed are clients whose times are known well: one timeout, two at once, a
// learnt preference, a Service.
var skewed = []string{"glibc-timeout-1", "glibc-one-server", "musl", "go", "node-resolve", "service-glibc", "service-go"}

// TestClockSkew drills servers whose clocks are 3 s apart. Every time of the
// report has to be right nevertheless, to the bound that it states.
func TestClockSkew(t *testing.T) {
	l := labFor(t)
	rows := slices.DeleteFunc(rowsFor(t), func(r row) bool { return !slices.Contains(skewed, r.Name) })
	bin, err := skewedCoreDNS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	offsets := []time.Duration{3 * time.Second, 0, -3 * time.Second}
	f := startFleet(t, l, fleetOptions{coredns: bin, offsets: offsets})
	m := measure(t, f, makeClients(t, f, rows), drill{label: "skew", mode: protocol.ModeDrop, seconds: 15})

	var list view.ServerList
	if err := f.api.call(t.Context(), http.MethodGet, view.PathServers, nil, &list); err != nil {
		t.Fatal(err)
	}
	for i, s := range list.Servers {
		got, bound := time.Duration(s.OffsetMs)*time.Millisecond, time.Duration(s.OffsetErr+1)*time.Millisecond
		t.Logf("%s: its clock is %s off, give or take %s", s.Name, got, bound)
		if (got - offsets[i]).Abs() > bound {
			t.Errorf("%s: its clock is said to be %s off; it is %s", s.Name, got, offsets[i])
		}
	}
	if limit := timely.Milliseconds(); m.report.ClockErrorMs > limit {
		t.Errorf("times can be off by %d ms: in a lab of one machine they need not by more than %d", m.report.ClockErrorMs, limit)
	}
	m.check(t)
}

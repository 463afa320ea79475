//go:build linux

package stubs

import (
	"os"
	"path/filepath"
	"testing"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// TestResolversLong is what a normal run has no time for: three servers in every
// resolv.conf, longer outages, and an outage of the second server.
func TestResolversLong(t *testing.T) {
	if os.Getenv("FIREBREAK_SOAK") == "" {
		t.Skip("skipped: five minutes with three servers each and longer drills: set FIREBREAK_SOAK=1, as make soak does")
	}
	l := labFor(t)
	rows := rowsFor(t)
	for i := range rows {
		if rows[i].servers == 2 {
			rows[i].servers = 3
		}
	}
	f := startFleet(t, l, fleetOptions{coredns: filepath.Join(built(t), "coredns")})
	clients := makeClients(t, f, rows)
	for _, d := range []drill{
		{label: "second", server: 1, mode: protocol.ModeDrop, seconds: 30}, // first: nobody has asked it out of need yet
		{label: "drop", mode: protocol.ModeDrop, seconds: 90},
		{label: "refused", mode: protocol.ModeRefused, seconds: 45},
	} {
		m := measure(t, f, clients, d)
		t.Run(d.label, m.check)
	}
}

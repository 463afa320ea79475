package clients

import (
	"net/netip"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// noon is when tests begin: a UTC noon, so that a day does not end under them.
const noon = 1_700_049_600_000

// clock is a test's time.
type clock struct{ now Moment }

func newClock() *clock { return &clock{Moment{Mono: int64(time.Hour), Ms: noon}} }

func (c *clock) pass(d time.Duration) Moment {
	c.now = c.now.Add(d)
	return c.now
}

func (c *clock) at(d time.Duration) Moment { return Moment{Mono: int64(time.Hour), Ms: noon}.Add(d) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// numbered is the n-th of many addresses, IPv4 and IPv6 in turn.
func numbered(n int) netip.Addr {
	if n%2 == 0 {
		return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
	}
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)})
}

// failer is what testing.TB and rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// seenAll is the whole table by address.
func seenAll(t failer, table *Table, now Moment) map[string]protocol.SeenClient {
	t.Helper()
	out := make(map[string]protocol.SeenClient)
	var after netip.Addr
	for {
		page, total, more := table.Seen(after, protocol.MaxSeenPage, now)
		for _, c := range page {
			if _, twice := out[c.Address]; twice {
				t.Fatalf("%s is on two pages", c.Address)
			}
			out[c.Address] = c
		}
		if !more {
			if total != len(out) {
				t.Fatalf("total is %d, pages have %d", total, len(out))
			}
			return out
		}
		after = netip.MustParseAddr(page[len(page)-1].Address)
	}
}

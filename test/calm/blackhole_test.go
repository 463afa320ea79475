package calm_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/upstream"

	"github.com/miekg/dns"
)

// TestOneOfFourBlackHoled: at 500 misses a second, one of four upstreams goes
// silent. No client fails, upstreams are asked at most 1.1 times what clients ask
// over any ten seconds and a burst of 20, and a second later it is as if nothing
// had been.
func TestOneOfFourBlackHoled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 seconds: not with -short")
	}
	const (
		gap    = 2 * time.Millisecond
		before = 3 * time.Second
		after  = 12 * time.Second
	)
	ups, addrs := upstreams(t, 4)
	s := start(t, "errors\nclients\nnodecache\nhedge ."+addrs)
	h := newHerd(t, s.addr, int((before+after)/gap), gap, func(i int) string { return fmt.Sprintf("n%d.hole.test.", i) })
	time.Sleep(time.Until(h.begin.Add(before)))
	ups[2].Set("* drop")
	// What it takes to be too silent is measured in what answers took before: after a
	// standstill of the machine, that is longer.
	within := 10 * time.Second
	if strict() {
		within = time.Second
	}
	eventually(t, within, "it is ejected", func() bool {
		return metric(t, "coredns_hedge_ejected", "to="+ups[2].Addr()) > 0
	})
	ejected := time.Since(h.begin.Add(before))
	all := h.end(6 * time.Second)

	if f := failures(all); len(f) > 0 {
		t.Errorf("of %d questions, without a good answer: %v (the sender was late by up to %s)", len(all), f, h.stood)
	}
	worst, at := overBudget(all, ups)
	if worst > 0 {
		t.Errorf("%d more than 1.1 times and 20 in the ten seconds from %s on", worst, at)
	}
	calm := h.between(time.Second, before)
	first := h.between(before, before+time.Second)
	second := h.between(before+time.Second, before+2*time.Second)
	rest := h.between(before+2*time.Second, before+after)
	t.Logf("99 %%: %s before, %s in the first second, %s in the second, %s after; medians %s and %s; slowest %s; ejected after %s; the budget had %d left; the sender was late by up to %s",
		percentile(calm, 99), percentile(first, 99), percentile(second, 99), percentile(rest, 99),
		percentile(calm, 50), percentile(rest, 50), percentile(all, 100), ejected, -worst, h.stood)
	most, normal := time.Second, time.Second
	if strict() {
		most, normal = 15*time.Millisecond, max(2*percentile(calm, 99), 5*time.Millisecond)
	}
	if p := percentile(first, 99); p >= most+h.stood {
		t.Errorf("in the first second, 99 %% within %s: want %s", p, most)
	}
	if p := percentile(rest, 99); p > normal+h.stood {
		t.Errorf("after two seconds, 99 %% within %s: want %s", p, normal)
	}
}

// overBudget is by how much the fullest ten seconds are above what upstreams may
// be asked, below zero if they are not, and when those began.
func overBudget(clients []asked, ups []*upstream.Server) (worst int, began time.Duration) {
	const span = 10 * time.Second
	var sent []time.Time
	for _, u := range ups {
		for _, q := range u.Queries() {
			if q.Type != dns.TypeHINFO { // the one question about loops
				sent = append(sent, q.At)
			}
		}
	}
	slices.SortFunc(sent, time.Time.Compare)
	within := func(all []time.Time, from, to time.Time) int {
		lo, _ := slices.BinarySearchFunc(all, from, time.Time.Compare)
		hi, _ := slices.BinarySearchFunc(all, to, time.Time.Compare)
		return hi - lo
	}
	due := make([]time.Time, len(clients))
	for i := range clients {
		due[i] = clients[i].at
	}
	worst = -1 << 30
	// Each span that could be the worst begins with a query.
	for _, from := range sent {
		to := from.Add(span)
		// What a client asked just before the span may have gone out in it.
		allowed := within(due, from.Add(-50*time.Millisecond), to)*11/10 + 20
		if over := within(sent, from, to) - allowed; over > worst {
			worst, began = over, from.Sub(due[0])
		}
	}
	return worst, began
}

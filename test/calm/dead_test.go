package calm_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestAllUpstreamsDead: held names are answered stale, the first that waits
// within the client-response time and the rest at once; others are told by their
// deadline, with why; upstreams see no more than the budget; the first success is
// served at once.
func TestAllUpstreamsDead(t *testing.T) {
	const (
		held     = 100
		deadline = 900 * time.Millisecond
	)
	ups, addrs := upstreams(t, 3)
	s := start(t, "errors\nclients\nnodecache {\nsuccess 0 1\nprefetch 0\n}\nhedge ."+addrs+" {\ndeadline 900ms\n}")
	name := func(i int) string { return fmt.Sprintf("held%d.test.", i%held) }
	if f := failures(newHerd(t, s.addr, held, 2*time.Millisecond, name).end(4 * time.Second)); len(f) > 0 {
		t.Fatal(f)
	}
	for _, u := range ups {
		u.Set("* drop")
		u.Reset()
	}
	time.Sleep(1100 * time.Millisecond)
	questions := metric(t, "coredns_hedge_questions_total")

	stale := newHerd(t, s.addr, 20*held, time.Millisecond, name)
	lost := newHerd(t, s.addr, 100, 20*time.Millisecond, func(i int) string { return fmt.Sprintf("lost%d.test.", i) })
	all := stale.end(4 * time.Second)
	if f := failures(all); len(f) > 0 {
		t.Errorf("held names: %v", f)
	}
	for i := range all {
		if all[i].bad == "" && all[i].ede != int(dns.ExtendedErrorCodeStaleAnswer) {
			t.Fatalf("%s: extended error %d, want 3", all[i].name, all[i].ede)
		}
	}
	first, later := all[:held], all[held*5:]
	t.Logf("stale answers: the first of each name within %s, later ones 99 %% within %s, the slowest %s", percentile(first, 100), percentile(later, 99), percentile(later, 100))
	const patience = 200 * time.Millisecond // the default of serve_stale
	slack := time.Second
	if strict() {
		slack = 50 * time.Millisecond
	}
	if p := percentile(first, 100); p < patience/2 || p > patience+slack+stale.stood {
		t.Errorf("the first who ask wait up to %s, want about %s", p, patience)
	}
	if p := percentile(later, 99); p > slack+stale.stood {
		t.Errorf("the others wait %s", p)
	}

	told := lost.end(4 * time.Second)
	if f := failures(told); !maps.Equal(f, map[string]int{"SERVFAIL": len(told)}) {
		t.Errorf("names that are not held: %v", f)
	}
	for i := range told {
		if told[i].ede != int(dns.ExtendedErrorCodeNoReachableAuthority) && told[i].ede != int(dns.ExtendedErrorCodeNetworkError) {
			t.Errorf("%s: extended error %d, want 22 or 23", told[i].name, told[i].ede)
			break
		}
	}
	if p := percentile(told, 100); p > deadline+slack+lost.stood {
		t.Errorf("told after %s, the deadline is %s", p, deadline)
	}
	time.Sleep(100 * time.Millisecond)
	sent := 0
	for _, u := range ups {
		for _, q := range u.Queries() {
			if q.Type != dns.TypeHINFO {
				sent++
			}
		}
	}
	asked := int(metric(t, "coredns_hedge_questions_total") - questions)
	t.Logf("clients asked %d times, hedge %d times, upstreams saw %d", len(all)+len(told), asked, sent)
	if asked < len(told) || sent > asked*11/10+20 {
		t.Errorf("upstreams saw %d for %d questions", sent, asked)
	}

	// Refused by the system instead of silent: another reason.
	for _, u := range ups {
		u.Down()
	}
	if r, _, err := ask(s.addr, "network.test.", 4*time.Second); err != nil || r.Rcode != dns.RcodeServerFailure || ede(r) != int(dns.ExtendedErrorCodeNetworkError) {
		t.Errorf("refused: %v %v, want SERVFAIL with 23", r, err)
	}

	// Back: the first question is answered, and what failed a moment ago as well.
	for _, u := range ups {
		u.Set("")
		if err := u.Up(); err != nil {
			t.Fatal(err)
		}
	}
	r, took, err := ask(s.addr, "back.test.", 4*time.Second)
	if b := bad(r, err); b != "" || took > 2*slack {
		t.Errorf("the first question after: %q after %s", b, took)
	}
	if r, _, err := ask(s.addr, "network.test.", 4*time.Second); bad(r, err) != "" {
		t.Errorf("what failed a moment ago: %s", bad(r, err))
	}
	t.Logf("the first success came after %s", took)
}

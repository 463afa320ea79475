package clients

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBusiest(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	b := &busiest{table: table, top: 2}
	ask := func(n, times int) {
		for range times {
			table.Query(Query{Addr: numbered(n), Question: uint64(c.now.Mono)}, c.pass(10*time.Second))
		}
	}
	in := func() string {
		list, _, _ := b.look(c.now)
		out := ""
		for _, cl := range list {
			out += fmt.Sprintf("%s=%d ", cl.addr, cl.queries)
		}
		return out
	}
	ask(0, 5)
	ask(2, 3)
	ask(4, 2)
	if got, want := in(), "10.0.0.0=0 10.0.0.2=0 "; got != want {
		t.Fatalf("the busiest are %q, want %q", got, want)
	}
	ask(4, 20) // busier now, but the others stay for 10 minutes
	ask(0, 1)
	if got, want := in(), "10.0.0.0=1 10.0.0.2=0 "; got != want {
		t.Errorf("within 10 minutes they are %q, want %q", got, want)
	}
	c.pass(busyStay)
	ask(0, 1)
	if got, want := in(), "10.0.0.0=2 10.0.0.4=0 "; got != want {
		t.Errorf("after 10 minutes they are %q, want %q", got, want)
	}
	b.setTop(0)
	if got := in(); got != "" {
		t.Errorf("with top 0 they are %q", got)
	}
}

// The series only grow, and together they are all queries.
func TestBusiestAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, c := NewTable(MinMax), newClock()
		b := &busiest{table: table, top: rapid.IntRange(0, 5).Draw(t, "top")}
		last := make(map[string]uint64)
		gone := uint64(0) // what those had who left
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			for range rapid.IntRange(0, 40).Draw(t, "queries") {
				table.Query(Query{Addr: numbered(rapid.IntRange(0, 2*MinMax).Draw(t, "client"))}, c.pass(time.Second))
			}
			c.pass(time.Duration(rapid.IntRange(0, 900).Draw(t, "pause")) * time.Second)
			list, other, _ := b.look(c.now)
			if len(list) > b.top {
				t.Fatalf("%d of %d", len(list), b.top)
			}
			now := map[string]uint64{"other": other}
			for _, cl := range list {
				now[cl.addr.String()] = cl.queries
			}
			sum := uint64(0)
			for name, n := range now {
				if n < last[name] {
					t.Fatalf("%s went from %d to %d", name, last[name], n)
				}
				sum += n
			}
			for name, n := range last {
				if _, in := now[name]; !in {
					gone += n
				}
			}
			if total := table.Stats(c.now).Queries; sum+gone != total {
				t.Fatalf("the series say %d and those who left had %d, of %d queries", sum, gone, total)
			}
			last = now
		}
	})
}

package clients

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/miekg/dns"
	"pgregory.net/rapid"
)

func TestAdmittedAtTheSecondQuery(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	q := Query{Addr: addr("192.0.2.1"), Question: 1}
	tk := table.Query(q, c.now)
	table.Answered(&tk, dns.RcodeServerFailure, false, c.now)
	if n := table.Len(); n != 0 {
		t.Fatalf("%d clients after one query, want none", n)
	}
	tk = table.Query(q, c.pass(time.Minute))
	table.Answered(&tk, dns.RcodeSuccess, false, c.now)
	got := seenAll(t, table, c.now)["192.0.2.1"]
	want := protocol.SeenClient{
		Address: "192.0.2.1", First: c.at(0).Time(), Last: c.at(time.Minute).Time(),
		Queries: 2, Answers: 2, Errors: 1, Daily: [7]uint32{2},
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDailyCounts(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	ask := func(n int) {
		for range n {
			table.Query(Query{Addr: addr("192.0.2.1")}, c.now)
		}
	}
	ask(3)
	c.pass(24 * time.Hour)
	ask(5)
	c.pass(48 * time.Hour)
	ask(2)
	if got, want := seenAll(t, table, c.now)["192.0.2.1"].Daily, [7]uint32{2, 0, 5, 3}; got != want {
		t.Errorf("daily counts are %v, want %v", got, want)
	}
	// Read on a later day, they have moved on although nothing was asked.
	if got, want := seenAll(t, table, c.pass(72*time.Hour))["192.0.2.1"].Daily, [7]uint32{3: 2, 5: 5, 6: 3}; got != want {
		t.Errorf("three days later they are %v, want %v", got, want)
	}
	if got, want := seenAll(t, table, c.pass(7*24*time.Hour))["192.0.2.1"].Daily, [7]uint32{}; got != want {
		t.Errorf("ten days later they are %v, want %v", got, want)
	}
}

func TestInfrastructureIsNoClient(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	table.SetInfrastructure([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")})
	for range 3 {
		tk := table.Query(Query{Addr: addr("192.0.2.1")}, c.now)
		if tk.Counted() {
			t.Error("infrastructure counts")
		}
		table.Answered(&tk, dns.RcodeSuccess, false, c.now)
		table.Drilled(&tk, c.now)
	}
	if s := table.Stats(c.now); table.Len() != 0 || s.Queries+s.Answers+s.Drilled != 0 {
		t.Errorf("infrastructure was counted: %d clients, %+v", table.Len(), s)
	}
}

// TestTable holds the table to a model: who is in it, what is counted, and who
// is replaced.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = MinMax
		table, c := NewTable(size), newClock()
		type seen struct {
			queries, answers, errors, drilled uint64
			last                              int64
		}
		model := make(map[netip.Addr]*seen) // every client ever, exactly
		var queries, answers, drilled uint64
		targets, recorded := make(map[string]bool), 0
		last := ""
		t.Repeat(map[string]func(*rapid.T){
			"query": func(t *rapid.T) {
				a := numbered(rapid.IntRange(0, 3*size).Draw(t, "client"))
				m := model[a]
				if m == nil {
					m = &seen{}
					model[a] = m
				}
				last = ""
				times := rapid.IntRange(1, 3).Draw(t, "times")
				if times > 1 { // in a row: nobody took its place at the door
					last = a.String()
				}
				for range times {
					now := c.pass(2 * time.Second) // the order of last use is exact to a second
					tk := table.Query(Query{Addr: a, Question: rapid.Uint64Range(0, 3).Draw(t, "question")}, now)
					queries++
					m.queries++
					m.last = now.Ms
					switch rapid.IntRange(0, 3).Draw(t, "end") {
					case 0:
						table.Answered(&tk, dns.RcodeSuccess, false, now)
						answers++
						m.answers++
					case 1:
						table.Answered(&tk, dns.RcodeServerFailure, false, now)
						table.Answered(&tk, dns.RcodeSuccess, false, now) // once is enough
						answers++
						m.answers++
						m.errors++
					case 2:
						table.Drilled(&tk, now)
						table.Answered(&tk, dns.RcodeRefused, false, now) // no answer
						drilled++
					}
				}
			},
			"record": func(t *rapid.T) {
				if r := table.Recording(c.now); r != nil {
					table.Forget(r.Drill)
				}
				recorded++
				targets = make(map[string]bool)
				var prefixes []string
				for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 3*size), 1, size/4, rapid.ID).Draw(t, "targets") {
					a := numbered(n)
					prefixes = append(prefixes, netip.PrefixFrom(a, a.BitLen()).String())
				}
				if _, problem := table.Record(fmt.Sprintf("d%d", recorded), protocol.RecordingOrder{Fleet: "f", Seconds: 600, Targets: prefixes}, c.now); problem != nil {
					t.Fatal(problem)
				}
				in := seenAll(t, table, c.now)
				for _, p := range prefixes {
					if a := netip.MustParsePrefix(p).Addr().String(); in[a].Address != "" {
						targets[a] = true
					}
				}
			},
			"resize": func(t *rapid.T) {
				table.Resize(size + rapid.IntRange(0, 1).Draw(t, "more")*size)
			},
			"save and load": func(t *rapid.T) {
				if table.Recording(c.now) != nil {
					return // targets are of this process
				}
				before := seenAll(t, table, c.now)
				other := NewTable(table.Max())
				if n, err := other.Load(table.Save(c.now)); err != nil || n != len(before) {
					t.Fatalf("loaded %d of %d: %v", n, len(before), err)
				}
				for a, was := range seenAll(t, other, c.now) {
					if before[a] != was {
						t.Fatalf("%s was saved as %+v and loaded as %+v", a, before[a], was)
					}
				}
			},
			"": func(t *rapid.T) {
				r := table.Recording(c.now)
				if r == nil || r.Frozen {
					targets = make(map[string]bool)
				}
				in := seenAll(t, table, c.now)
				if len(in) > table.Max() || len(in) != table.Len() {
					t.Fatalf("%d clients, Len %d, Max %d", len(in), table.Len(), table.Max())
				}
				s := table.Stats(c.now)
				if s.Queries != queries || s.Answers != answers || s.Drilled != drilled {
					t.Fatalf("counted %d queries, %d answers, %d drilled; want %d, %d, %d", s.Queries, s.Answers, s.Drilled, queries, answers, drilled)
				}
				var inBuckets uint64
				for _, n := range s.LatencyMs {
					inBuckets += n
				}
				if inBuckets != answers {
					t.Fatalf("%d answers in the histogram, want %d", inBuckets, answers)
				}
				for a, got := range in {
					want := model[netip.MustParseAddr(a)]
					if got.Queries > want.queries || got.Answers > want.answers || got.Errors > want.errors || got.Last.UnixMilli() != want.last {
						t.Fatalf("%s: got %+v, more than the %+v that was", a, got, *want)
					}
				}
				for a := range targets {
					if in[a].Address == "" {
						t.Fatalf("the target %s was replaced", a)
					}
				}
				if last != "" && len(in) < table.Max() && in[last].Address == "" && table.Dropped() == 0 {
					t.Fatalf("%s asked twice, there is room, and it is not in", last)
				}
			},
		})
	})
}

// Whoever was seen last stays, across all shards.
func TestLeastRecentlySeenIsReplaced(t *testing.T) {
	const size = 512
	table, c := NewTable(size), newClock()
	twice := func(n int) {
		table.Query(Query{Addr: numbered(n)}, c.pass(2*time.Second))
		table.Query(Query{Addr: numbered(n)}, c.now)
	}
	for n := range size {
		twice(n)
	}
	if got := table.Len(); got != size {
		t.Fatalf("%d clients fit, want %d", got, size)
	}
	for n := 0; n < size; n += 2 { // every second one is seen again
		table.Query(Query{Addr: numbered(n)}, c.pass(2*time.Second))
	}
	for n := size; n < size+size/2; n++ {
		twice(n)
	}
	in := seenAll(t, table, c.now)
	for n := range size + size/2 {
		want := n%2 == 0 || n >= size
		if got := in[numbered(n).String()].Address != ""; got != want {
			t.Fatalf("client %d: in the table is %v, want %v", n, got, want)
		}
	}
	if got := table.Dropped(); got != size/2 {
		t.Errorf("%d dropped, want %d", got, size/2)
	}
}

// When all are targets, nobody is let in, and that is counted once a client.
func TestFullOfTargets(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	for n := range MinMax {
		table.Query(Query{Addr: numbered(n)}, c.now)
		table.Query(Query{Addr: numbered(n)}, c.now)
	}
	if _, problem := table.Record("d", protocol.RecordingOrder{Fleet: "f", Seconds: 60}, c.now); problem != nil {
		t.Fatal(problem)
	}
	for range 5 {
		table.Query(Query{Addr: addr("192.0.2.1")}, c.now)
	}
	if in := seenAll(t, table, c.now); in["192.0.2.1"].Address != "" || len(in) != MinMax || table.Dropped() != 1 {
		t.Errorf("%d clients, %d dropped, the newcomer %+v", len(in), table.Dropped(), in["192.0.2.1"])
	}
	// After the recording the table is as any other.
	c.pass(61 * time.Second)
	table.Tick(c.now)
	table.Query(Query{Addr: addr("192.0.2.1")}, c.now)
	got := seenAll(t, table, c.now)["192.0.2.1"]
	if got.Queries != 6 {
		t.Errorf("after the recording: %+v, want all 6 queries counted", got)
	}
}

// A flood of addresses changes neither the memory nor the targets.
func TestTenMillionAddresses(t *testing.T) {
	n := 10_000_000
	if testing.Short() {
		n = 500_000
	}
	table, c := NewTable(DefaultMax), newClock()
	var targets []string
	for i := range 1000 {
		a := numbered(i)
		targets = append(targets, netip.PrefixFrom(a, a.BitLen()).String())
		table.Query(Query{Addr: a}, c.now)
		table.Query(Query{Addr: a}, c.now)
	}
	if _, problem := table.Record("d", protocol.RecordingOrder{Fleet: "f", Seconds: 600, Targets: targets}, c.now); problem != nil {
		t.Fatal(problem)
	}
	flood := func(from, to int) {
		for i := from; i < to; i++ {
			now := c.pass(10 * time.Microsecond)
			q := Query{Addr: numbered(i), Question: uint64(i)}
			tk := table.Query(q, now)
			if i%16 == 0 { // some of them push into the table
				table.Query(q, now)
				table.Answered(&tk, dns.RcodeSuccess, false, now)
			}
		}
	}
	flood(1000, n/2)
	before := heap()
	flood(n/2, n)
	if after := heap(); after > before+1<<20 {
		t.Errorf("memory in use went from %d to %d bytes", before, after)
	}
	in := seenAll(t, table, c.now)
	if len(in) != DefaultMax {
		t.Errorf("%d clients, want %d", len(in), DefaultMax)
	}
	for i := range 1000 {
		if in[numbered(i).String()].Address == "" {
			t.Fatalf("target %d was replaced", i)
		}
	}
	if table.Dropped() == 0 {
		t.Error("nobody was dropped")
	}
	rec, _ := table.ReadRecording("d", true, 0, c.now)
	if len(rec.Clients) > DefaultMax/2 || rec.Dropped == 0 {
		t.Errorf("%d strangers recorded, %d dropped: half of the room is for targets", len(rec.Clients), rec.Dropped)
	}
	// There is room for every target.
	for i := range 1000 {
		table.Query(Query{Addr: numbered(i)}, c.now)
	}
	rec, _ = table.ReadRecording("d", false, 0, c.now)
	for i := range 1000 {
		if !slices.ContainsFunc(rec.Clients, func(r protocol.RecordedClient) bool { return r.Address == numbered(i).String() }) {
			t.Fatalf("target %d is not recorded", i)
		}
	}
}

func TestPages(t *testing.T) {
	table, c := NewTable(DefaultMax), newClock()
	var want []netip.Addr
	for n := range 25 {
		want = append(want, numbered(n))
		table.Query(Query{Addr: numbered(n)}, c.now)
		table.Query(Query{Addr: numbered(n)}, c.now)
	}
	slices.SortFunc(want, netip.Addr.Compare)
	var got []netip.Addr
	var after netip.Addr
	for pages := 1; ; pages++ {
		page, total, more := table.Seen(after, 10, c.now)
		if total != 25 {
			t.Fatalf("total is %d", total)
		}
		for _, s := range page {
			got = append(got, netip.MustParseAddr(s.Address))
		}
		if !more {
			if pages != 3 {
				t.Errorf("%d pages of 10, want 3", pages)
			}
			break
		}
		after = got[len(got)-1]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

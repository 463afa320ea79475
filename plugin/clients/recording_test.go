package clients

import (
	"fmt"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"pgregory.net/rapid"
)

func record(t *testing.T, table *Table, drill string, seconds int, now Moment, targets ...string) protocol.RecordingState {
	t.Helper()
	s, problem := table.Record(drill, protocol.RecordingOrder{Fleet: "f", Seconds: seconds, Targets: targets}, now)
	if problem != nil {
		t.Fatal(problem)
	}
	return s
}

func refused(t *testing.T, problem *protocol.Problem, reason protocol.Reason, field string) {
	t.Helper()
	if problem == nil || problem.Reason() != reason || problem.Field != field || problem.Detail == "" {
		t.Errorf("got %v (field %q), want %s in field %q with a detail", problem, problem.Field, reason, field)
	}
}

func TestRecordingOrders(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	started := record(t, table, "d1", 60, c.now, "192.0.2.0/24")
	if started.Frozen || started.Drill != "d1" || !started.EndsAt.Equal(started.Started.Add(time.Minute)) {
		t.Errorf("state is %+v", started)
	}
	// The same order again changes nothing, also when it is late.
	if again := record(t, table, "d1", 60, c.pass(10*time.Second), "192.0.2.0/24"); again != started {
		t.Errorf("the same order again: %+v, want %+v", again, started)
	}
	_, problem := table.Record("d1", protocol.RecordingOrder{Fleet: "f", Seconds: 60}, c.now)
	refused(t, problem, protocol.ReasonOtherRecording, "")
	_, problem = table.Record("d2", protocol.RecordingOrder{Fleet: "f", Seconds: 60}, c.now)
	refused(t, problem, protocol.ReasonOtherRecording, "")

	// Over: it is frozen, and can be replaced.
	c.pass(50 * time.Second)
	if s := table.Recording(c.now); s == nil || !s.Frozen {
		t.Errorf("after its end: %+v, want it frozen", s)
	}
	record(t, table, "d2", 60, c.now)
	if _, ok := table.ReadRecording("d1", true, 0, c.now); ok {
		t.Error("the recording that was replaced is still there")
	}

	// Forgotten half an hour after its end.
	c.pass(time.Minute)
	if !table.Tick(c.now) {
		t.Error("freezing is no change")
	}
	if table.Tick(c.pass(recordingKept - time.Second)); table.Recording(c.now) == nil {
		t.Error("it is forgotten too early")
	}
	if table.Tick(c.pass(time.Second)); table.Recording(c.now) != nil {
		t.Error("it is not forgotten")
	}
	if table.Forget("d2") {
		t.Error("what is forgotten was forgotten once more")
	}

	for _, tc := range []struct {
		drill, field string
		order        protocol.RecordingOrder
	}{
		{"", "id", protocol.RecordingOrder{Seconds: 60}},
		{"Has Spaces", "id", protocol.RecordingOrder{Seconds: 60}},
		{"d", "seconds", protocol.RecordingOrder{}},
		{"d", "seconds", protocol.RecordingOrder{Seconds: protocol.MaxRecordingSeconds + 1}},
		{"d", "targets[1]", protocol.RecordingOrder{Seconds: 60, Targets: []string{"192.0.2.0/24", "192.0.2.1"}}},
		{"d", "targets[0]", protocol.RecordingOrder{Seconds: 60, Targets: []string{"192.0.2.1/24"}}},
	} {
		_, problem := table.Record(tc.drill, tc.order, c.now)
		refused(t, problem, protocol.ReasonBadRequest, tc.field)
	}
}

// The end is on the monotonic clock: setting the wall clock changes nothing.
func TestRecordingIgnoresTheWallClock(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	record(t, table, "d", 60, c.now)
	c.now.Ms += time.Hour.Milliseconds()
	if table.Recording(c.now).Frozen {
		t.Error("a wall clock that was set forward ended it")
	}
	c.now.Ms -= 2 * time.Hour.Milliseconds()
	if c.pass(time.Minute); !table.Recording(c.now).Frozen {
		t.Error("a wall clock that was set back keeps it running")
	}
}

// TestRecorded follows one client through a drill.
func TestRecorded(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	record(t, table, "d", 60, c.now)
	a := addr("192.0.2.1")
	step := func(after time.Duration, id uint16, question uint64, end func(*Ticket, Moment)) {
		now := c.pass(after)
		tk := table.Query(Query{Addr: a, Port: id, ID: id, Question: question}, now)
		end(&tk, now)
	}
	answered := func(rcode int) func(*Ticket, Moment) {
		return func(tk *Ticket, now Moment) { table.Answered(tk, rcode, false, now) }
	}
	drilled := func(tk *Ticket, now Moment) { table.Drilled(tk, now) }
	step(1000*time.Millisecond, 1, 100, answered(dns.RcodeSuccess))
	step(1000*time.Millisecond, 2, 100, answered(dns.RcodeServerFailure)) // 2 s: an error answers nobody, so it is no sample
	step(1000*time.Millisecond, 3, 200, drilled)                          // 3 s
	step(5000*time.Millisecond, 4, 200, drilled)                          // 8 s: a retry
	step(7000*time.Millisecond, 5, 200, drilled)                          // 15 s: a new question
	step(1000*time.Millisecond, 6, 300, drilled)                          // 16 s
	step(1000*time.Millisecond, 7, 300, answered(dns.RcodeSuccess))       // 17 s: a retry, and answered
	c.pass(time.Minute)
	step(time.Second, 8, 400, answered(dns.RcodeSuccess)) // frozen by now

	rec, ok := table.ReadRecording("d", true, 0, c.now)
	if !ok || len(rec.Clients) != 1 {
		t.Fatalf("recorded %+v", rec)
	}
	at := func(s int) int64 { return noon + int64(s)*1000 }
	want := protocol.RecordedClient{
		Address: "192.0.2.1", FirstMs: at(1), LastMs: at(17), Queries: 7, Answers: 3, Errors: 1, Retries: 2,
		FirstAnswerMs: at(1), LastAnswerMs: at(17), Drilled: 4, DrilledQuestions: 3, FirstDrilledMs: at(3), LastDrilledMs: at(16), AnsweredAfterMs: at(17),
		Samples: []protocol.Sample{
			{Hash: 100, FirstMs: at(1), LastMs: at(1)},
			{Hash: 200, Drilled: true, FirstMs: at(3), LastMs: at(8)},
			{Hash: 200, Drilled: true, FirstMs: at(15), LastMs: at(15)},
			{Hash: 300, Drilled: true, FirstMs: at(16), LastMs: at(16)},
			{Hash: 300, FirstMs: at(17), LastMs: at(17)},
		},
	}
	if diff := cmp.Diff(want, rec.Clients[0]); diff != "" {
		t.Errorf("recorded, want - got +:\n%s", diff)
	}
	if !rec.Frozen || rec.NowMs != c.now.Ms {
		t.Errorf("the recording says %+v", rec.RecordingState)
	}

	short, _ := table.ReadRecording("d", false, at(17), c.now)
	if len(short.Clients) != 1 || short.Clients[0].Samples != nil || short.Clients[0].Drilled != 4 {
		t.Errorf("without samples, since the last: %+v", short.Clients)
	}
	if none, _ := table.ReadRecording("d", false, at(17)+1, c.now); len(none.Clients) != 0 {
		t.Errorf("since after the last: %+v", none.Clients)
	}
}

// A client that asks here for the first time, as after a failover, is recorded
// with its first query.
func TestRecordedAtTheFirstQuery(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	record(t, table, "d", 60, c.now)
	tk := table.Query(Query{Addr: addr("192.0.2.1"), Question: 5}, c.now)
	table.Answered(&tk, dns.RcodeSuccess, false, c.pass(time.Millisecond))
	rec, _ := table.ReadRecording("d", true, 0, c.now)
	if len(rec.Clients) != 1 || rec.Clients[0].Queries != 1 || rec.Clients[0].Answers != 1 {
		t.Errorf("recorded %+v", rec.Clients)
	}
}

// What began before the recording and was answered in it is an answer in it.
func TestRecordedAnswerToAnEarlierQuery(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	tk := table.Query(Query{Addr: addr("192.0.2.1"), Question: 5}, c.now)
	record(t, table, "d", 60, c.pass(time.Second))
	table.Answered(&tk, dns.RcodeSuccess, false, c.pass(time.Second))
	rec, _ := table.ReadRecording("d", true, 0, c.now)
	if len(rec.Clients) != 1 || rec.Clients[0].Queries != 0 || rec.Clients[0].Answers != 1 || rec.Clients[0].FirstAnswerMs != c.now.Ms {
		t.Errorf("recorded %+v", rec.Clients)
	}
}

// TestSamplesMergeWithoutLoss: whatever a client asks and when, an answered
// sample overlaps a span of at least 6 s exactly when there was an answer in it.
func TestSamplesMergeWithoutLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s samples
		var answers []uint32
		now := uint32(0)
		for range rapid.IntRange(1, 200).Draw(t, "answers") {
			now += rapid.Uint32Range(0, 12_000).Draw(t, "pause")
			s.add(42, false, false, now, 1000)
			answers = append(answers, now)
		}
		if s.until != 0 || s.bits != 0 {
			t.Fatal("thinned, and there was room")
		}
		for range 50 {
			from := rapid.Uint32Range(0, now+10_000).Draw(t, "from")
			to := from + 6000 + rapid.Uint32Range(0, 20_000).Draw(t, "longer")
			was, shown := false, false
			for _, a := range answers {
				was = was || from <= a && a <= to
			}
			for _, have := range s.list {
				shown = shown || have.first <= to && from <= have.last
			}
			if was != shown {
				t.Fatalf("between %d and %d: an answer was there is %v, the samples show %v", from, to, was, shown)
			}
		}
	})
}

// TestSamplesThin: two servers that see the same questions keep the same ones,
// however much else each has to do.
func TestSamplesThin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hashes := rapid.SliceOfNDistinct(rapid.Uint64(), 200, 400, rapid.ID).Draw(t, "hashes")
		var here, there samples
		for i, h := range hashes {
			here.add(h, true, false, uint32(i), 64)
			if i%3 == 0 {
				there.add(h, false, false, uint32(i), 64)
			}
		}
		if here.until != 0 || there.until != 0 {
			t.Skip("too few different low bits")
		}
		if len(here.list) > 64 || len(there.list) > 64 {
			t.Fatalf("%d and %d samples", len(here.list), len(there.list))
		}
		bits := max(here.bits, there.bits)
		has := make(map[uint64]bool)
		for _, s := range here.list {
			has[s.hash] = true
		}
		want := 0
		for i, h := range hashes {
			if keeps(h, here.bits) != has[h] {
				t.Fatalf("hash %x: kept is %v", h, has[h])
			}
			if i%3 == 0 && keeps(h, bits) {
				want++
				if !has[h] {
					t.Fatalf("hash %x is kept there and not here", h)
				}
			}
		}
		got := 0
		for _, s := range there.list {
			if keeps(s.hash, bits) {
				got++
			}
		}
		if got != want {
			t.Fatalf("%d questions are comparable, want %d", got, want)
		}
	})
}

// A client that asks one question over and over cannot be thinned.
func TestSamplesOfOneQuestion(t *testing.T) {
	var s samples
	for i := range uint32(100) {
		s.add(42, false, false, i*10_000, 64)
	}
	if len(s.list) != 64 || s.bits != 0 || s.until != 64*10_000 {
		t.Errorf("%d samples, bits %d, until %d; want 64, 0, %d", len(s.list), s.bits, s.until, 64*10_000)
	}
	for i, have := range s.list {
		if have.first != uint32(i)*10_000 {
			t.Errorf("sample %d is of %d", i, have.first)
		}
	}
}

// A recording's samples have a bound that does not grow with the table.
func TestSamplesAreBounded(t *testing.T) {
	for _, size := range []int{MinMax, DefaultMax, MaxMax} {
		table, c := NewTable(size), newClock()
		record(t, table, "d", 60, c.now)
		r := table.recording.Load()
		if r.samples < 1 || r.samples > protocol.SamplesPerClient || r.samples*size > maxSamples {
			t.Errorf("max %d: %d samples for each client", size, r.samples)
		}
	}
}

// An order that comes after its recording was deleted begins nothing, also where
// it never came before; so it cannot keep other drills away.
func TestForgottenStaysForgotten(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	order := protocol.RecordingOrder{Fleet: "f", Seconds: 60}
	if _, problem := table.Record("d1", order, c.now); problem != nil {
		t.Fatal(problem)
	}
	if !table.Forget("d1") || table.Forget("never-came") {
		t.Fatal("Forget does not say what was there")
	}
	for _, late := range []string{"d1", "never-came"} {
		if _, problem := table.Record(late, order, c.now); problem == nil || problem.Reason() != protocol.ReasonDrillEnded {
			t.Errorf("a late order for %s: %v", late, problem)
		}
	}
	if table.Recording(c.now) != nil {
		t.Error("something is recorded")
	}
	for i := range 3 * forgottenKept { // remembered are the last ones, no more
		table.Forget(fmt.Sprintf("d%d", i))
	}
	if n := len(table.forgotten); n != forgottenKept {
		t.Errorf("%d are remembered", n)
	}
	if _, problem := table.Record("next", order, c.now); problem != nil {
		t.Errorf("another drill: %v", problem)
	}
}

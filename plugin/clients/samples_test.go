package clients

import (
	"net/netip"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// onlyRecorded is what was recorded of the one client that asked.
func onlyRecorded(t *testing.T, table *Table, now Moment) protocol.RecordedClient {
	t.Helper()
	rec, ok := table.ReadRecording("d", true, 0, now)
	if !ok || len(rec.Clients) != 1 {
		t.Fatalf("recorded %+v, %v", rec, ok)
	}
	return rec.Clients[0]
}

// drilledSamples are a client's samples of drilled questions.
func drilledSamples(c protocol.RecordedClient) (out []protocol.Sample) {
	for _, s := range c.Samples {
		if s.Drilled {
			out = append(out, s)
		}
	}
	return out
}

// A resolver's retries are one question however long it is at it, if it sends the
// very packet again; whoever asks the same name once a second, each time anew, asks
// many questions, and all but the last one's answer is too late for them.
func TestDrilledQuestions(t *testing.T) {
	for name, tc := range map[string]struct {
		at   []time.Duration
		same bool // the very packet each time
		want int
	}{
		"glibc: the packet again after 5 s":     {at: []time.Duration{0, 5 * time.Second}, same: true, want: 1},
		"c-ares: again after 2 and 4 more":      {at: []time.Duration{0, 2 * time.Second, 6100 * time.Millisecond}, same: true, want: 1},
		"Go: a new packet after 5 s":            {at: []time.Duration{0, 5 * time.Second}, want: 1},
		"Go, and the application once more":     {at: []time.Duration{0, 5 * time.Second, 10 * time.Second, 15 * time.Second}, want: 2},
		"a poller, once a second for 25 s":      {at: every(time.Second, 25), want: 4},
		"a resolver that resends once a second": {at: every(time.Second, 25), same: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			table, c := NewTable(MinMax), newClock()
			addr := netip.MustParseAddr("192.0.2.1")
			record(t, table, "d", 120, c.now, "192.0.2.0/24")
			began := c.now
			for i, at := range tc.at {
				now := began.Add(at)
				q := Query{Addr: addr, Port: 4000, ID: 7, Question: 99 << 8}
				if !tc.same {
					q.ID += uint16(i)
				}
				tk := table.Query(q, now)
				table.Drilled(&tk, now)
			}
			got := onlyRecorded(t, table, began.Add(time.Minute))
			if n := len(drilledSamples(got)); n != tc.want || got.DrilledQuestions != uint64(tc.want) || got.Drilled != uint64(len(tc.at)) {
				t.Errorf("%d samples, %d questions of %d queries; want %d", n, got.DrilledQuestions, got.Drilled, tc.want)
			}
		})
	}
}

func every(d time.Duration, n int) (at []time.Duration) {
	for i := range n {
		at = append(at, time.Duration(i)*d)
	}
	return at
}

// A question that was held and is answered when the drill ends lasts until then,
// and has its answer.
func TestHeldAndAnswered(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	addr := netip.MustParseAddr("192.0.2.1")
	record(t, table, "d", 120, c.now, "192.0.2.0/24")
	began := c.now
	tk := table.Query(Query{Addr: addr, Stream: true, Question: 99 << 8}, began)
	table.Drilled(&tk, began)
	end := began.Add(25 * time.Second)
	table.Answered(&tk, 0, false, end)
	got := onlyRecorded(t, table, began.Add(time.Minute))
	if len(got.Samples) != 2 || !got.Samples[0].Drilled || got.Samples[1].Drilled ||
		got.Samples[0].LastMs != end.Ms || got.Samples[1].FirstMs != end.Ms {
		t.Errorf("samples %+v, want the question until %d and its answer then", got.Samples, end.Ms)
	}
	if got.Answers != 0 || got.Drilled != 1 || got.DrilledQuestions != 1 {
		t.Errorf("counted %+v", got)
	}
}

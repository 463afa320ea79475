package clients

import (
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestRetry goes through the definition, case by case.
func TestRetry(t *testing.T) {
	type step struct {
		at     time.Duration
		port   uint16
		id     uint16
		stream bool
		other  bool   // another question
		then   string // what becomes of it: "", answered, truncated, drilled
		retry  bool
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"exact repeat, no answer yet", []step{{at: 0, port: 1, id: 1}, {at: 5 * time.Second, port: 1, id: 1, retry: true}}},
		{"exact repeat, answered late", []step{{at: 0, port: 1, id: 1, then: "answered"}, {at: 5 * time.Second, port: 1, id: 1, retry: true}}},
		{"exact repeat, too late", []step{{at: 0, port: 1, id: 1, then: "answered"}, {at: 6001 * time.Millisecond, port: 1, id: 1}}},
		{"exact repeat at the last moment", []step{{at: 0, port: 1, id: 1, then: "answered"}, {at: 6 * time.Second, port: 1, id: 1, retry: true}}},
		{"asked again after the answer", []step{{at: 0, port: 1, id: 1, then: "answered"}, {at: time.Second, port: 2, id: 2}}},
		{"asked again without an answer", []step{{at: 0, port: 1, id: 1}, {at: time.Second, port: 2, id: 2, retry: true}}},
		{"asked again without an answer, too late", []step{{at: 0, port: 1, id: 1}, {at: 7 * time.Second, port: 2, id: 2}}},
		{"a chain of retries", []step{{at: 0, port: 1, id: 1}, {at: 5 * time.Second, port: 2, id: 2, retry: true}, {at: 10 * time.Second, port: 3, id: 3, retry: true}}},
		{"after a drilled one", []step{{at: 0, port: 1, id: 1, then: "drilled"}, {at: 5 * time.Second, port: 2, id: 2, then: "drilled", retry: true}}},
		{"after a drilled one, then answered", []step{{at: 0, port: 1, id: 1, then: "drilled"}, {at: time.Second, port: 2, id: 2, then: "answered", retry: true}, {at: 2 * time.Second, port: 3, id: 3}}},
		{"TCP after a truncated answer", []step{{at: 0, port: 1, id: 1, then: "truncated"}, {at: time.Second, port: 2, id: 2, stream: true}}},
		{"TCP after a truncated answer, same ID", []step{{at: 0, port: 1, id: 1, then: "truncated"}, {at: time.Second, port: 1, id: 1, stream: true}}},
		{"TCP after a truncated answer, asked twice", []step{{at: 0, port: 1, id: 1, then: "truncated"}, {at: time.Second, port: 2, id: 2, stream: true}, {at: 2 * time.Second, port: 3, id: 3, stream: true, retry: true}}},
		{"TCP after a truncated answer, while another asks the same", []step{{at: 0, port: 1, id: 1, then: "truncated"}, {at: time.Second, port: 9, id: 9}, {at: 1100 * time.Millisecond, port: 2, id: 2, stream: true}}},
		{"TCP after UDP in vain", []step{{at: 0, port: 1, id: 1}, {at: time.Second, port: 2, id: 2, stream: true, retry: true}}},
		{"DoH: ID 0 on one connection, answered", []step{{at: 0, port: 1, stream: true, then: "answered"}, {at: time.Second, port: 1, stream: true}}},
		{"another question", []step{{at: 0, port: 1, id: 1}, {at: time.Second, port: 1, id: 1, other: true}}},
		{"an older packet once more", []step{{at: 0, port: 1, id: 1, then: "answered"}, {at: time.Second, port: 2, id: 2, then: "answered"}, {at: 2 * time.Second, port: 1, id: 1, then: "answered", retry: true}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table, c := NewTable(MinMax), newClock()
			for i, s := range tc.steps {
				now := c.at(s.at)
				q := Query{Addr: addr("192.0.2.1"), Port: s.port, ID: s.id, Stream: s.stream, Question: 7}
				if s.other {
					q.Question = 8
				}
				tk := table.Query(q, now)
				if tk.Retry() != s.retry {
					t.Errorf("step %d: retry is %v, want %v", i+1, tk.Retry(), s.retry)
				}
				switch s.then {
				case "answered":
					table.Answered(&tk, dns.RcodeSuccess, false, now)
				case "truncated":
					table.Answered(&tk, dns.RcodeSuccess, true, now)
				case "drilled":
					table.Drilled(&tk, now)
				}
			}
			// Another client never sees anything of it.
			last := tc.steps[len(tc.steps)-1]
			tk := table.Query(Query{Addr: addr("192.0.2.2"), Port: last.port, ID: last.id, Stream: last.stream, Question: 7}, c.at(last.at))
			if tk.Retry() {
				t.Error("another client's first query counts as a retry")
			}
		})
	}
}

// A truncation that is only known once the answer was written counts as well.
func TestRetryTruncatedAfterwards(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	q := Query{Addr: addr("192.0.2.1"), Port: 1, ID: 1, Question: 7}
	tk := table.Query(q, c.now)
	table.Answered(&tk, dns.RcodeSuccess, false, c.now)
	table.Truncated(&tk)
	pending := table.Query(Query{Addr: q.Addr, Port: 5, ID: 5, Question: 7}, c.now) // somebody else behind that address
	if pending.Retry() {
		t.Error("a question after an answer counts as a retry")
	}
	tcp := table.Query(Query{Addr: q.Addr, Port: 2, ID: 2, Stream: true, Question: 7}, c.pass(time.Millisecond))
	if tcp.Retry() {
		t.Error("the TCP attempt after a truncated answer counts as a retry")
	}
}

// The table of questions forgets the oldest, says so, and never finds what was
// not asked.
func TestRetriesAreBounded(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	for i := range 4 * retrySlots {
		q := Query{Addr: numbered(i % 50), Port: 1, ID: 1, Question: uint64(i)}
		if tk := table.Query(q, c.pass(100*time.Microsecond)); tk.Retry() {
			t.Fatalf("question %d was never asked before", i)
		}
	}
	if n := table.counters().retriesLost; n == 0 {
		t.Error("more questions than there is room for, and none forgotten")
	}
	// The last thousand are there; of chance, a bucket could have had more of them
	// than it has room for.
	missed := 0
	for i := 4*retrySlots - 1000; i < 4*retrySlots; i++ {
		q := Query{Addr: numbered(i % 50), Port: 2, ID: 2, Question: uint64(i)}
		if tk := table.Query(q, c.now); !tk.Retry() {
			missed++
		}
	}
	if missed > 5 {
		t.Errorf("%d of 1,000 questions that were asked a moment ago are forgotten", missed)
	}
}

// Milliseconds since the process began wrap after 49 days: a question asked
// before is not found again after.
func TestRetriesAfterTheClockWraps(t *testing.T) {
	table, c := NewTable(MinMax), newClock()
	q := Query{Addr: addr("192.0.2.1"), Port: 1, ID: 1, Question: 7}
	table.Query(q, c.pass(49*24*time.Hour+16*time.Hour))
	if tk := table.Query(q, c.pass(2*time.Hour)); tk.Retry() {
		t.Error("a question of 2 hours ago counts as a retry across the wrap")
	}
	if tk := table.Query(q, c.pass(time.Second)); !tk.Retry() {
		t.Error("a question of a second ago does not count as a retry after the wrap")
	}
}

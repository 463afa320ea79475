package nodecache

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"pgregory.net/rapid"
)

func hold(t testing.TB, s *store, name string, denial bool) *entry {
	t.Helper()
	m := answer(t, name, dns.TypeA, name+" 300 IN A 192.0.2.1")
	if denial {
		m = answer(t, name, dns.TypeA, soa)
		m.Rcode = dns.RcodeNameError
	}
	e := entryOf(t, m, wide)
	e.hold = 600
	s.put(e, 0)
	return e
}

func check(t interface {
	Helper()
	Errorf(string, ...any)
}, s *store) {
	t.Helper()
	n, bytes := 0, int64(0)
	tab := s.table.Load()
	for i := range tab.buckets {
		tab.each(i, func(e *entry) {
			n++
			bytes += e.cost()
			if e.queue == queueNone {
				t.Errorf("%q is in the table and in no queue", e.name())
			}
		})
	}
	listed, listedBytes := 0, int64(0)
	for _, sh := range []*share{&s.answers, &s.denials} {
		sum := int64(0)
		for _, q := range []*queue{&sh.small, &sh.main} {
			qn, qb := 0, int64(0)
			for e := q.head; e != nil; e = e.next {
				qn++
				qb += e.cost()
				if e.queue != q.id || (e.next == nil) != (q.tail == e) {
					t.Errorf("%q is in the wrong queue", e.name())
				}
			}
			if qn != q.entries || qb != q.bytes {
				t.Errorf("queue %d: %d entries, %d bytes, not %d and %d", q.id, qn, qb, q.entries, q.bytes)
			}
			listed += qn
			sum += qb
		}
		if sum != sh.bytes {
			t.Errorf("a share of %d bytes says %d", sum, sh.bytes)
		}
		listedBytes += sum
	}
	if n != listed || n != s.count || bytes != listedBytes {
		t.Errorf("table: %d entries, %d bytes; queues: %d, %d; count %d", n, bytes, listed, listedBytes, s.count)
	}
	if s.answers.bytes+s.denials.bytes > s.limit || s.denials.bytes > s.denials.limit {
		t.Errorf("%d + %d bytes are over the bounds %d and %d", s.answers.bytes, s.denials.bytes, s.limit, s.denials.limit)
	}
}

// TestStore does anything in any order, next to a plain map.
func TestStore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newStore(int64(rapid.IntRange(2, 60).Draw(rt, "KiB")) << 10)
		model := map[string]*entry{}
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				name := fmt.Sprintf("n%d.example.", rapid.IntRange(0, 400).Draw(rt, "name"))
				model[name] = hold(t, s, name, rapid.Bool().Draw(rt, "denial"))
			},
			"get": func(rt *rapid.T) {
				name := fmt.Sprintf("n%d.example.", rapid.IntRange(0, 400).Draw(rt, "name"))
				e := s.get(keyFor(t, name, dns.TypeA, 0))
				if e != nil && e != model[name] {
					rt.Fatalf("%s is an older entry", name)
				}
				if e != nil {
					e.touch(1, time.Minute)
				}
			},
			"purge": func(rt *rapid.T) {
				name := fmt.Sprintf("n%d.example.", rapid.IntRange(0, 400).Draw(rt, "name"))
				k := keyFor(t, name, dns.TypeA, 0)
				s.purge(func(e *entry) bool { return e.is(k) })
				s.purges.Store(0)
				if s.get(k) != nil {
					rt.Fatalf("%s is still there", name)
				}
			},
			"limit": func(rt *rapid.T) { s.setLimit(int64(rapid.IntRange(2, 60).Draw(rt, "KiB")) << 10) },
			"":      func(rt *rapid.T) { check(rt, s) },
		})
	})
}

// TestScan: names that are asked again and again stay while a scan of names that
// are asked once goes through.
func TestScan(t *testing.T) {
	s := newStore(1 << 20)
	const hot = 200
	get := func(i int) *entry { return s.get(keyFor(t, fmt.Sprintf("hot%d.example.", i), dns.TypeA, 0)) }
	for i := range hot {
		hold(t, s, fmt.Sprintf("hot%d.example.", i), false)
		for range 3 {
			get(i).touch(1, time.Minute)
		}
	}
	for n := range 20000 {
		hold(t, s, fmt.Sprintf("scan%d.example.", n), false)
		if n%50 == 0 {
			for i := range hot {
				if e := get(i); e != nil {
					e.touch(1, time.Minute)
				}
			}
		}
	}
	left := 0
	for i := range hot {
		if get(i) != nil {
			left++
		}
	}
	if left < hot*99/100 {
		t.Errorf("a scan of 20000 names left %d of %d", left, hot)
	}
	check(t, s)
}

// TestDenialFlood: names that do not exist evict none that do, even if those were
// asked only once.
func TestDenialFlood(t *testing.T) {
	s := newStore(1 << 20)
	const names = 1500
	for i := range names {
		hold(t, s, fmt.Sprintf("n%d.example.", i), false)
	}
	before, _, _ := s.usage()
	for n := range 30000 {
		hold(t, s, fmt.Sprintf("flood%d.example.", n), true)
	}
	after, denials, limit := s.usage()
	if after != before {
		t.Errorf("%d answers were left of %d", after.entries, before.entries)
	}
	if denials.bytes > limit*denialShare/100 || denials.entries == 0 {
		t.Errorf("%d bytes of denials", denials.bytes)
	}
	check(t, s)
}

func TestPurgeBeatsWhatIsOnItsWay(t *testing.T) {
	s := newStore(1 << 20)
	e := entryOf(t, answer(t, "a.", dns.TypeA, "a. 300 IN A 192.0.2.1"), wide)
	asked := s.purges.Load()
	s.purge(func(*entry) bool { return true })
	s.put(e, asked)
	if s.get(keyFor(t, "a.", dns.TypeA, 0)) != nil {
		t.Error("an answer from before the purge came back")
	}
}

func TestSweep(t *testing.T) {
	s := newStore(1 << 20)
	for i := range 500 {
		hold(t, s, fmt.Sprintf("n%d.example.", i), i%2 == 0)
	}
	for range 400 {
		s.sweep(int64(660*time.Second), 300) // denials live for 60 s and are held for 600
	}
	if a, d, _ := s.usage(); a.entries != 250 || d.entries != 0 {
		t.Errorf("%d answers and %d denials are left", a.entries, d.entries)
	}
	check(t, s)
}

// TestReadersAndWriters is for the race detector.
func TestReadersAndWriters(t *testing.T) {
	s := newStore(256 << 10)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("n%d.example.", i%3000)
				if e := s.get(keyFor(t, name, dns.TypeA, 0)); e != nil {
					e.touch(int64(i), time.Minute)
					if _, err := e.message(new(dns.Msg).SetQuestion(name, dns.TypeA), aging{age: 1}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for i := range 6000 {
		hold(t, s, fmt.Sprintf("n%d.example.", i%3000), i%7 == 0)
		if i%1000 == 0 {
			s.purge(func(e *entry) bool { return e.name()[2]%2 == 0 })
			s.purges.Store(0)
		}
	}
	close(stop)
	wg.Wait()
	check(t, s)
}

// TestBytesAreBytes holds what the store says it takes to what the process takes.
func TestBytesAreBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("fills 16 MiB: not with -short")
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) // #nosec G115 -- below 2^63
	}
	before := heap()
	s := newStore(16 << 20)
	for i := 0; ; i++ {
		hold(t, s, fmt.Sprintf("host%d.svc%d.bench.example.", i, i%37), false)
		if s.answers.evicted > 1000 {
			break
		}
	}
	took := heap() - before
	a, d, limit := s.usage()
	n := int64(a.entries + d.entries)
	t.Logf("%d entries: %d bytes each by the store's account, %d by the heap's", n, (a.bytes+d.bytes)/n, took/n)
	if took > limit*11/10 {
		t.Errorf("the heap grew by %d bytes where the limit is %d", took, limit)
	}
	runtime.KeepAlive(s)
}

// TestMillion: a million answers are held within the bound that is said for them,
// and a flood of more names changes neither that nor what the process takes.
func TestMillion(t *testing.T) {
	if testing.Short() {
		t.Skip("fills 192 MiB: not with -short")
	}
	const million, more = 1_000_000, 400_000
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) // #nosec G115 -- below 2^63
	}
	before := heap()
	s := newStore(192 << 20)
	// One answer under many names: what it says is the same for all.
	like := entryOf(t, answer(t, "host.svc.example.", dns.TypeA, "host.svc.example. 300 IN A 192.0.2.1"), wide)
	records, err := recordsOf(like.body(), int(like.ttls))
	if err != nil {
		t.Fatal(err)
	}
	put := func(i int) {
		e := &entry{qtype: like.qtype, kind: like.kind, ttl: like.ttl, hold: 600, header: like.header, counts: like.counts, stored: like.stored}
		e.fill(keyFor(t, fmt.Sprintf("host%d.svc%d.example.", i, i%37), dns.TypeA, 0).name, like.body(), like.options(), records)
		s.put(e, 0)
	}
	began := time.Now()
	for i := range million {
		put(i)
	}
	a, d, limit := s.usage()
	full := heap() - before
	t.Logf("%d answers in %s: %d MiB by the store's account, %d MiB by the heap's, the bound is %d MiB", a.entries, time.Since(began), a.bytes>>20, full>>20, limit>>20)
	if a.entries != million || a.evicted != 0 {
		t.Errorf("%d answers are held, %d were evicted", a.entries, a.evicted)
	}
	if a.bytes+d.bytes > limit || full > limit {
		t.Errorf("%d bytes by the account, %d on the heap: the bound is %d", a.bytes+d.bytes, full, limit)
	}
	for i := range more {
		put(million + i)
	}
	a, d, _ = s.usage()
	after := heap() - before
	t.Logf("after %d more: %d answers, %d MiB by the account, %d MiB on the heap", more, a.entries, a.bytes>>20, after>>20)
	if a.evicted == 0 || a.bytes+d.bytes > limit || after > limit {
		t.Errorf("%d evicted, %d bytes by the account, %d on the heap: the bound is %d", a.evicted, a.bytes+d.bytes, after, limit)
	}
	check(t, s)
	runtime.KeepAlive(s)
}

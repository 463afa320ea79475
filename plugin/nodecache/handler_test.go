package nodecache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/hedge/late"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"

	"github.com/miekg/dns"
)

// upstreams are the plugins behind: what they answer can be changed.
type upstreams struct {
	asked atomic.Int64
	mu    sync.Mutex
	do    func(*dns.Msg) (*dns.Msg, int, error)
	last  *dns.Msg
}

func (u *upstreams) Name() string { return "upstreams" }

func (u *upstreams) ServeDNS(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	u.asked.Add(1)
	u.mu.Lock()
	do := u.do
	u.last = r
	u.mu.Unlock()
	m, rcode, err := do(r)
	if m != nil {
		_ = w.WriteMsg(m)
	}
	return rcode, err
}

func (u *upstreams) set(do func(*dns.Msg) (*dns.Msg, int, error)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.do = do
}

func says(t testing.TB, rcode int, records ...string) func(*dns.Msg) (*dns.Msg, int, error) {
	return func(r *dns.Msg) (*dns.Msg, int, error) {
		m := answer(t, r.Question[0].Name, r.Question[0].Qtype, records...)
		m.Id = r.Id
		m.Rcode = rcode
		return m, dns.RcodeSuccess, nil
	}
}

func unreachableNow(*dns.Msg) (*dns.Msg, int, error) {
	return nil, dns.RcodeServerFailure, errors.New("no upstream answers")
}

func newCache(t testing.TB, change func(*options)) (*Cache, *upstreams) {
	o := newOptions([]string{"."})
	o.prefetch = 0
	if change != nil {
		change(o)
	}
	u := &upstreams{do: says(t, 0, "a.example. 300 IN A 192.0.2.1")}
	return &Cache{Next: u, options: o, store: newStore(1 << 20)}, u
}

// ask asks over UDP, with EDNS.
func (c *Cache) askFor(t testing.TB, name string, change ...func(*dns.Msg)) *dns.Msg {
	t.Helper()
	r := new(dns.Msg).SetQuestion(name, dns.TypeA)
	r.SetEdns0(1232, false)
	for _, f := range change {
		f(r)
	}
	w := dnstest.NewRecorder(&test.ResponseWriter{})
	rcode, _ := c.ServeDNS(context.Background(), w, r)
	if w.Msg == nil {
		if plugin.ClientWrite(rcode) {
			t.Fatalf("nothing was written, and the server will not: %d", rcode)
		}
		return new(dns.Msg).SetRcode(r, rcode)
	}
	if w.Msg.Id != r.Id || w.Msg.Question[0] != r.Question[0] {
		t.Fatalf("not the answer to %v: %v", r, w.Msg)
	}
	return w.Msg
}

// age makes what is held older.
func (c *Cache) age(t testing.TB, name string, by time.Duration) {
	t.Helper()
	old := c.store.get(keyFor(t, name, dns.TypeA, 0))
	if old == nil {
		t.Fatalf("%s is not held", name)
	}
	k := old.key()
	e := &entry{block: old.block, qtype: old.qtype, flags: old.flags, kind: old.kind, ttl: old.ttl, hold: old.hold, header: old.header, counts: old.counts, stored: old.stored - int64(by)}
	records, err := recordsOf(old.body(), int(old.ttls))
	if err != nil {
		t.Fatal(err)
	}
	e.fill(k.name, old.body(), old.options(), records)
	e.retryAt.Store(old.retryAt.Load())
	c.store.put(e, c.store.purges.Load())
}

func ede(m *dns.Msg) int {
	if o := m.IsEdns0(); o != nil {
		for _, x := range o.Option {
			if e, is := x.(*dns.EDNS0_EDE); is {
				return int(e.InfoCode)
			}
		}
	}
	return -1
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for range 300 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("never: " + what)
}

func TestKeyedByWhatMatters(t *testing.T) {
	c, u := newCache(t, nil)
	plain := func(*dns.Msg) {}
	for _, step := range []struct {
		what   string
		name   string
		change func(*dns.Msg)
		asked  int64
	}{
		{"first", "a.example.", plain, 1},
		{"again", "a.example.", plain, 1},
		{"spelt otherwise", "A.eXample.", plain, 1},
		{"without EDNS", "a.example.", func(m *dns.Msg) { m.Extra = nil }, 1},
		{"with a subnet", "a.example.", func(m *dns.Msg) {
			m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_SUBNET{Code: 8, Family: 1, SourceNetmask: 24, Address: []byte{10, 0, 0, 0}}}
		}, 1},
		{"DO", "a.example.", func(m *dns.Msg) { m.IsEdns0().SetDo() }, 2},
		{"DO again", "a.example.", func(m *dns.Msg) { m.IsEdns0().SetDo() }, 2},
		{"CD", "a.example.", func(m *dns.Msg) { m.CheckingDisabled = true }, 3},
		{"another type", "a.example.", func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }, 4},
		{"without RD, not stored", "a.example.", func(m *dns.Msg) { m.RecursionDesired = false }, 5},
		{"without RD, not stored, again", "a.example.", func(m *dns.Msg) { m.RecursionDesired = false }, 6},
		{"ANY, not stored", "a.example.", func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeANY }, 7},
	} {
		c.askFor(t, step.name, step.change)
		if n := u.asked.Load(); n != step.asked {
			t.Errorf("%s: asked %d times, want %d", step.what, n, step.asked)
		}
	}
}

func TestNothingOfTheClientGoesUpstream(t *testing.T) {
	c, u := newCache(t, nil)
	c.askFor(t, "A.example.", func(m *dns.Msg) {
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_SUBNET{Code: 8, Family: 1, SourceNetmask: 24, Address: []byte{10, 0, 0, 0}}, &dns.EDNS0_COOKIE{Code: 10, Cookie: "0011223344556677"}}
		m.IsEdns0().SetUDPSize(4096)
	})
	if o := u.last.IsEdns0(); len(o.Option) != 0 || o.UDPSize() != upstreamSize || u.last.Question[0].Name != "a.example." || !u.last.AuthenticatedData {
		t.Error(u.last)
	}
}

func TestStaleOnFailure(t *testing.T) {
	for what, fails := range map[string]func(*dns.Msg) (*dns.Msg, int, error){
		"unreachable": unreachableNow,
		"SERVFAIL":    says(t, dns.RcodeServerFailure),
		"REFUSED":     says(t, dns.RcodeRefused),
		"another question": func(*dns.Msg) (*dns.Msg, int, error) {
			return answer(t, "other.example.", dns.TypeA, "other.example. 300 IN A 192.0.2.9"), 0, nil
		},
		"nothing": func(*dns.Msg) (*dns.Msg, int, error) { return nil, 0, errors.New("lost") },
	} {
		t.Run(what, func(t *testing.T) {
			c, u := newCache(t, nil)
			c.askFor(t, "a.example.")
			c.age(t, "a.example.", time.Minute)
			u.set(fails)
			for range 5 {
				if m := c.askFor(t, "a.example."); len(m.Answer) != 1 || m.Answer[0].Header().Ttl != 30 || ede(m) != int(dns.ExtendedErrorCodeStaleAnswer) {
					t.Fatal(m)
				}
			}
			if n := u.asked.Load(); n != 2 {
				t.Errorf("asked %d times: a failed refresh is not repeated for 5 s", n)
			}
			c.age(t, "a.example.", 2*time.Hour)
			if m := c.askFor(t, "a.example."); m.Rcode != dns.RcodeServerFailure && m.Rcode != dns.RcodeRefused {
				t.Errorf("held for ever: %v", m)
			}
		})
	}
}

func TestStaleNXDOMAIN(t *testing.T) {
	c, u := newCache(t, nil)
	u.set(says(t, dns.RcodeNameError, soa))
	c.askFor(t, "nx.example.")
	c.age(t, "nx.example.", time.Minute)
	u.set(unreachableNow)
	if m := c.askFor(t, "nx.example."); m.Rcode != dns.RcodeNameError || ede(m) != int(dns.ExtendedErrorCodeStaleNXDOMAINAnswer) {
		t.Error(m)
	}
}

func TestStaleAfterPatience(t *testing.T) {
	c, u := newCache(t, func(o *options) { o.staleWait = 50 * time.Millisecond })
	c.askFor(t, "a.example.")
	c.age(t, "a.example.", time.Minute)
	release := make(chan struct{})
	u.set(func(r *dns.Msg) (*dns.Msg, int, error) {
		<-release
		return says(t, 0, "a.example. 300 IN A 192.0.2.2")(r)
	})
	began := time.Now()
	if m := c.askFor(t, "a.example."); ede(m) != int(dns.ExtendedErrorCodeStaleAnswer) || time.Since(began) < 40*time.Millisecond {
		t.Errorf("after %s: %v", time.Since(began), m)
	}
	began = time.Now()
	if m := c.askFor(t, "a.example."); ede(m) != int(dns.ExtendedErrorCodeStaleAnswer) || time.Since(began) > 40*time.Millisecond {
		t.Errorf("the next one waited %s: %v", time.Since(began), m)
	}
	close(release)
	eventually(t, "the late answer is stored", func() bool { return ede(c.askFor(t, "a.example.")) == -1 })
	if n := u.asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestFailuresAreForgottenAtTheFirstSuccess(t *testing.T) {
	c, u := newCache(t, nil)
	u.set(unreachableNow)
	if m := c.askFor(t, "a.example."); m.Rcode != dns.RcodeServerFailure || ede(m) != int(dns.ExtendedErrorCodeNoReachableAuthority) {
		t.Error(m)
	}
	c.askFor(t, "a.example.")
	if n := u.asked.Load(); n != 1 {
		t.Errorf("asked %d times: a failure is remembered for a second", n)
	}
	u.set(says(t, 0, "b.example. 300 IN A 192.0.2.1"))
	c.askFor(t, "b.example.")
	if m := c.askFor(t, "a.example."); m.Rcode != 0 {
		t.Errorf("although upstreams answer again: %v", m)
	}
	// What a server has answered is about that name, and stays.
	u.set(says(t, dns.RcodeServerFailure))
	c.askFor(t, "broken.example.")
	u.set(says(t, 0, "c.example. 300 IN A 192.0.2.1"))
	c.askFor(t, "c.example.")
	before := u.asked.Load()
	if m := c.askFor(t, "broken.example."); m.Rcode != dns.RcodeServerFailure || u.asked.Load() != before {
		t.Error("SERVFAIL was not kept (RFC 9520)")
	}
}

// TestBackAtOnce: after an outage of all upstreams, what is held is fresh again at
// once and not when each name's turn comes; the end of the outage is found out
// soon, also where one name is all that is asked for.
func TestBackAtOnce(t *testing.T) {
	c, u := newCache(t, func(o *options) { o.failureRecheck = time.Hour })
	names := []string{"a.example.", "b.example.", "c.example.", "d.example."}
	for _, name := range names {
		u.set(says(t, 0, name+" 300 IN A 192.0.2.1"))
		c.askFor(t, name)
		c.age(t, name, time.Minute)
	}
	stale := func(name string) bool { return ede(c.askFor(t, name)) == int(dns.ExtendedErrorCodeStaleAnswer) }
	u.set(unreachableNow)
	c.upstreams.good.Store(clients.Now().Mono - int64(2*awayAfter)) // they last answered long ago
	for _, name := range names {
		if !stale(name) {
			t.Fatalf("%s is not stale", name)
		}
	}
	before := u.asked.Load()
	for until := time.Now().Add(5 * tryEvery / 2); time.Now().Before(until); time.Sleep(tryEvery / 50) {
		if !stale("a.example.") {
			t.Fatal("fresh without an upstream")
		}
	}
	if n := u.asked.Load() - before; n < 2 || n > 3 {
		t.Errorf("upstreams were tried %d times in %s, want once every %s", n, 5*tryEvery/2, tryEvery)
	}
	u.set(func(r *dns.Msg) (*dns.Msg, int, error) {
		return says(t, 0, r.Question[0].Name+" 300 IN A 192.0.2.2")(r)
	})
	start := time.Now()
	eventually(t, "a.example. is fresh", func() bool { return !stale("a.example.") })
	if took := time.Since(start); took > tryEvery+300*time.Millisecond {
		t.Errorf("it took %s", took)
	}
	for _, name := range names[1:] {
		stale(name) // the first is still told what is held
		start := time.Now()
		eventually(t, name+" is fresh", func() bool { return !stale(name) })
		if took := time.Since(start); took > 300*time.Millisecond {
			t.Errorf("%s took %s more", name, took)
		}
	}
}

// TestComingBackInPart: a name that fails once more just after the outage, since not
// all upstreams are back, is tried again within a second.
func TestComingBackInPart(t *testing.T) {
	c, u := newCache(t, func(o *options) { o.failureRecheck = 10 * time.Second })
	c.askFor(t, "a.example.")
	c.age(t, "a.example.", time.Minute)
	u.set(unreachableNow)
	c.upstreams.good.Store(clients.Now().Mono - int64(2*awayAfter))
	c.askFor(t, "a.example.")
	var tries atomic.Int64
	u.set(func(r *dns.Msg) (*dns.Msg, int, error) {
		if r.Question[0].Name == "a.example." && tries.Add(1) == 1 {
			return unreachableNow(r)
		}
		return says(t, 0, r.Question[0].Name+" 300 IN A 192.0.2.2")(r)
	})
	c.askFor(t, "b.example.") // they are back
	start := time.Now()
	eventually(t, "a.example. is fresh", func() bool {
		return ede(c.askFor(t, "a.example.")) != int(dns.ExtendedErrorCodeStaleAnswer)
	})
	if took := time.Since(start); took > 2*backAgain+300*time.Millisecond {
		t.Errorf("it took %s", took)
	}
	if n := tries.Load(); n != 2 {
		t.Errorf("it was tried %d times, want twice", n)
	}
}

// TestOneDomainIsNoOutage: names whose servers are gone are tried again at their
// time and no sooner, while others are answered.
func TestOneDomainIsNoOutage(t *testing.T) {
	c, u := newCache(t, func(o *options) { o.failureRecheck = time.Hour })
	c.askFor(t, "a.example.")
	c.age(t, "a.example.", time.Minute)
	tried := atomic.Int64{}
	u.set(func(r *dns.Msg) (*dns.Msg, int, error) {
		if r.Question[0].Name == "a.example." {
			tried.Add(1)
			return unreachableNow(r)
		}
		return says(t, 0, r.Question[0].Name+" 300 IN A 192.0.2.2")(r)
	})
	for i := range 100 {
		c.askFor(t, fmt.Sprintf("n%d.example.", i))
		if m := c.askFor(t, "a.example."); ede(m) != int(dns.ExtendedErrorCodeStaleAnswer) {
			t.Fatal(m)
		}
		time.Sleep(awayAfter / 50)
	}
	if n := tried.Load(); n != 1 {
		t.Errorf("a name that fails alone was tried %d times in 2 s, want once", n)
	}
}

func TestPreferPositive(t *testing.T) {
	for _, on := range []bool{false, true} {
		c, u := newCache(t, func(o *options) {
			if on {
				o.prefer = 5 * time.Minute
			}
		})
		c.askFor(t, "a.example.")
		c.age(t, "a.example.", time.Minute)
		u.set(says(t, dns.RcodeNameError, soa))
		m := c.askFor(t, "a.example.")
		if kept := m.Rcode == 0 && ede(m) == int(dns.ExtendedErrorCodeStaleAnswer); kept != on {
			t.Errorf("prefer_positive %v: %v", on, m)
		}
		if !on {
			continue
		}
		c.age(t, "a.example.", 5*time.Minute)
		c.store.get(keyFor(t, "a.example.", dns.TypeA, 0)).retryAt.Store(0)
		if m := c.askFor(t, "a.example."); m.Rcode != dns.RcodeNameError {
			t.Errorf("it is kept for ever: %v", m)
		}
	}
}

func TestTTLZeroIsSharedAndNotKept(t *testing.T) {
	c, u := newCache(t, nil)
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	u.set(func(r *dns.Msg) (*dns.Msg, int, error) {
		arrived <- struct{}{}
		<-release
		return says(t, 0, "a.example. 0 IN A 192.0.2.1")(r)
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if m := c.askFor(t, "a.example."); len(m.Answer) != 1 || m.Answer[0].Header().Ttl != 0 {
				t.Error(m)
			}
		})
	}
	<-arrived
	eventually(t, "all wait", func() bool { return c.flights.waiting.Load() == 19 })
	close(release)
	wg.Wait()
	if n := u.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	wg.Go(func() { c.askFor(t, "a.example.") })
	<-arrived // asked anew
	wg.Wait()
}

func TestPrefetch(t *testing.T) {
	c, u := newCache(t, func(o *options) { o.prefetch = 3 })
	for range 4 {
		c.askFor(t, "a.example.")
	}
	c.age(t, "a.example.", 25*time.Second)
	c.askFor(t, "a.example.")
	if u.asked.Load() != 1 {
		t.Error("fetched although a sixth of its time is left")
	}
	c.age(t, "a.example.", 3*time.Second)
	for range 10 {
		if m := c.askFor(t, "a.example."); len(m.Answer) != 1 {
			t.Error(m)
		}
	}
	eventually(t, "it is fetched", func() bool { return u.asked.Load() == 2 })
	eventually(t, "it is fresh", func() bool { return c.askFor(t, "a.example.").Answer[0].Header().Ttl >= 29 })
	if n := u.asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestLateAnswersAreKept(t *testing.T) {
	c, u := newCache(t, nil)
	var take func(*dns.Msg)
	c.Next = plugin.HandlerFunc(func(ctx context.Context, _ dns.ResponseWriter, r *dns.Msg) (int, error) {
		u.asked.Add(1)
		take = late.Of(ctx)
		return unreachableNowFor(r)
	})
	if m := c.askFor(t, "a.example."); m.Rcode != dns.RcodeServerFailure {
		t.Fatal(m)
	}
	take(answer(t, "a.example.", dns.TypeA, "a.example. 300 IN A 192.0.2.1"))
	if m := c.askFor(t, "a.example."); len(m.Answer) != 1 || u.asked.Load() != 1 {
		t.Errorf("asked %d times: %v", u.asked.Load(), m)
	}
}

func unreachableNowFor(r *dns.Msg) (int, error) {
	_, rcode, err := unreachableNow(r)
	return rcode, err
}

func TestPanicBehind(t *testing.T) {
	c, u := newCache(t, nil)
	entered, release := make(chan struct{}), make(chan struct{})
	u.set(func(*dns.Msg) (*dns.Msg, int, error) {
		close(entered)
		<-release
		panic("behind")
	})
	go func() {
		defer func() { _ = recover() }() // as CoreDNS does
		_, _ = c.ServeDNS(context.Background(), &test.ResponseWriter{}, new(dns.Msg).SetQuestion("a.example.", dns.TypeA))
	}()
	<-entered
	done := make(chan *dns.Msg)
	go func() { done <- c.askFor(t, "a.example.") }()
	eventually(t, "it waits", func() bool { return c.flights.waiting.Load() == 1 })
	close(release)
	if m := <-done; m.Rcode != dns.RcodeServerFailure {
		t.Error(m)
	}
}

func TestSilenceStaysSilent(t *testing.T) {
	c, u := newCache(t, nil)
	u.set(func(*dns.Msg) (*dns.Msg, int, error) { return nil, dns.RcodeSuccess, nil })
	w := dnstest.NewRecorder(&test.ResponseWriter{})
	rcode, err := c.ServeDNS(context.Background(), w, new(dns.Msg).SetQuestion("a.example.", dns.TypeA))
	if rcode != dns.RcodeSuccess || err != nil || w.Msg != nil {
		t.Error(rcode, err, w.Msg)
	}
}

func TestPurgeRoute(t *testing.T) {
	c, _ := newCache(t, nil)
	p := &process{store: c.store}
	current.Store(p)
	defer current.Store(nil)
	mux := http.NewServeMux()
	routes(mux)
	names := []string{"a.example.", "b.a.example.", "c.b.a.example.", "xa.example.", "other."}
	for _, step := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"name":"a.example","subtree":false}`, 200, `{"removed":1}`},
		{`{"name":"A.EXAMPLE.","subtree":true}`, 200, `{"removed":3}`},
		{`{"name":".","subtree":true}`, 200, `{"removed":5}`},
		{`{"name":"nobody.","subtree":true}`, 200, `{"removed":0}`},
		{`{"name":"","subtree":true}`, 400, `"field":"name"`},
		{`{"name":"a..b","subtree":true}`, 400, `"field":"name"`},
		{`{"name":"a.example","subtre":true}`, 400, "BadRequest"},
	} {
		c.store.purge(func(*entry) bool { return true })
		for _, n := range names {
			c.askFor(t, n)
		}
		r := httptest.NewRequest(http.MethodPost, protocol.PathPurge, strings.NewReader(step.body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != step.status || !bytes.Contains(w.Body.Bytes(), []byte(step.want)) {
			t.Errorf("%s: %d %s", step.body, w.Code, w.Body)
		}
	}
}

func TestMaxWaiters(t *testing.T) {
	var s flights
	k := keyFor(t, "a.", dns.TypeA, 0)
	f, leads := s.join(k, false)
	if f == nil || !leads {
		t.Fatal("does not lead")
	}
	for i := range maxWaiters {
		if got, leads := s.join(k, false); got != f || leads {
			t.Fatal(i, got, leads)
		}
	}
	if got, _ := s.join(k, false); got != nil {
		t.Error("one more may wait")
	}
	if got, leads := s.join(k, true); got == nil || !leads || got == f {
		t.Error("a stream waits for a datagram's answer")
	}
	s.land(f)
	for i := range maxFlights - 1 {
		if f, leads := s.join(keyFor(t, fmt.Sprintf("n%d.", i), dns.TypeA, 0), false); f == nil || !leads {
			t.Fatal(i)
		}
	}
	if f, _ := s.join(keyFor(t, "more.", dns.TypeA, 0), false); f != nil {
		t.Error("one more flight may begin")
	}
}

package hedge

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/upstream"

	"github.com/miekg/dns"
)

// upstreams starts n servers; those are their addresses for a Corefile.
func upstreams(t testing.TB, n int) (all []*upstream.Server, addrs string) {
	t.Helper()
	for range n {
		s := upstream.Run(t, "")
		all = append(all, s)
		addrs += " " + s.Addr()
	}
	return all, addrs
}

// clients asks n questions, one every gap, and waits for the answers.
type clients struct {
	took   []time.Duration
	failed []string
	stood  time.Duration // the longest that this process got no processor
}

func (s *server) load(n int, gap time.Duration, name func(i int) string) *clients {
	var mu sync.Mutex
	var wg sync.WaitGroup
	c := &clients{}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		const every = 2 * time.Millisecond
		for {
			before := time.Now()
			select {
			case <-time.After(every):
				c.stood = max(c.stood, time.Since(before)-every)
			case <-done:
				return
			}
		}
	})
	start := time.Now()
	for i := range n {
		time.Sleep(time.Until(start.Add(time.Duration(i) * gap)))
		wg.Go(func() {
			m, took, err := s.ask(name(i))
			mu.Lock()
			defer mu.Unlock()
			c.took = append(c.took, took)
			if bad := good(m, err); bad != "" {
				c.failed = append(c.failed, fmt.Sprintf("%s: %s after %s", name(i), bad, took))
			}
		})
	}
	wg.Wait()
	close(done)
	watch.Wait()
	slices.Sort(c.took)
	return c
}

func (c *clients) p99() time.Duration { return c.took[len(c.took)*99/100] }

// noneFailed holds that every question was answered well. When this process, and
// its upstreams with it, stood still for longer than any of them is waited for,
// all of them were silent, and what came of that is only said.
func (c *clients) noneFailed(t *testing.T) {
	t.Helper()
	if len(c.failed) == 0 {
		return
	}
	if c.stood > figure(time.Second, 30*time.Millisecond) && !strings.Contains(strings.Join(c.failed, " "), "wrong") {
		t.Logf("%d of %d failed, on a machine that stood still for %s: %s", len(c.failed), len(c.took), c.stood, c.failed[0])
		return
	}
	t.Errorf("%d of %d failed: %s", len(c.failed), len(c.took), c.failed[0])
}

var names atomic.Int64

// fresh is a name that was never asked.
func fresh(int) string { return fmt.Sprintf("n%d.test", names.Add(1)) }

// clientsAsked are the questions that servers got, without probes and loop
// detection.
func clientsAsked(all ...*upstream.Server) (n int) {
	for _, s := range all {
		for _, q := range s.Queries() {
			if q.Type == dns.TypeA {
				n++
			}
		}
	}
	return n
}

// asked is everything that servers got but loop detection, which is once.
func asked(all ...*upstream.Server) (n int) {
	for _, s := range all {
		for _, q := range s.Queries() {
			if q.Type != dns.TypeHINFO {
				n++
			}
		}
	}
	return n
}

// figure is what is held: on a busy machine nothing is exact, and it is that
// nobody waits for a timeout. With FIREBREAK_FIGURES, on a quiet one, it is the
// figure of the docs.
func figure(quiet, busy time.Duration) time.Duration {
	if os.Getenv("FIREBREAK_FIGURES") != "" {
		return quiet
	}
	return busy
}

// TestBlackHoled: one of four upstreams is black-holed: no client notices, it is
// ejected within a second, and upstreams are asked no more than the budget.
func TestBlackHoled(t *testing.T) {
	for _, how := range []string{"* drop", "* wrongid", "* elsewhere", "* noquestion"} {
		ups, addrs := upstreams(t, 4)
		s := serve(t, "hedge ."+addrs)
		s.load(100, 4*time.Millisecond, fresh).noneFailed(t)
		for _, u := range ups {
			u.Reset()
		}
		ups[0].Set(how)
		start := time.Now()
		var after time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			within(t, figure(time.Second, 3*time.Second), how+": ejected", func() bool { return ejected(t, ups[0].Addr()) })
			after = time.Since(start)
		}()
		c := s.load(400, 4*time.Millisecond, fresh)
		<-done
		c.noneFailed(t)
		if p := c.p99(); p > figure(15*time.Millisecond, 700*time.Millisecond)+4*c.stood {
			t.Errorf("%s: 99 %% within %s", how, p)
		}
		n := asked(ups...)
		if most := len(c.took)*11/10 + 20; n > most {
			t.Errorf("%s: upstreams were asked %d times, at most %d", how, n, most)
		}
		if !ejected(t, ups[0].Addr()) {
			t.Logf("%+v", groupOf(t).view.Health())
		}
		t.Logf("%s: %d questions, %d asked; median %s, 99 %% %s, slowest %s; ejected after %s", how, len(c.took), n,
			c.took[len(c.took)/2], c.p99(), c.took[len(c.took)-1], after)
	}
}

// TestFirstBlackHoled: of two upstreams that nothing is known of yet, the first is
// black-holed from the start. Sequential, so that it is always asked first.
func TestFirstBlackHoled(t *testing.T) {
	ups, addrs := upstreams(t, 2)
	ups[0].Set("* drop")
	s := serve(t, "hedge ."+addrs+" {\npolicy sequential\n}")
	c := s.load(50, 10*time.Millisecond, fresh)
	c.noneFailed(t)
	if slowest := c.took[len(c.took)-1]; slowest > figure(150*time.Millisecond, 700*time.Millisecond)+4*c.stood {
		t.Errorf("the slowest took %s", slowest)
	}
	within(t, figure(10*time.Millisecond, time.Second), "ejected after half a second", func() bool { return ejected(t, ups[0].Addr()) })
}

// TestOneOfTwo: one of two upstreams misbehaves, in each way that there is, from
// one moment on: no wrong answer and no failed one.
func TestOneOfTwo(t *testing.T) {
	for _, test := range []struct{ script, options string }{
		{"* servfail", ""},
		{"* refused", ""},
		{"* servfail delay 5ms-20ms", ""},
		{"* garbage", ""},
		{"* wrongid answer 203.0.113.66", ""},
		{"* wrongname answer 203.0.113.66", ""},
		{"* spoof", ""}, // and then the right answer
		{"* loss 50%", ""},
		{"* drop", ""},
		{"* close", "force_tcp"},
		{"* drop", "force_tcp"},
		{"* garbage", "force_tcp"},
		{"* wrongid answer 203.0.113.66", "force_tcp"},
		{"*@udp truncate\n*@tcp close", ""},
		{"*@udp truncate\n*@tcp drop", ""},
		{"* delay 100ms-300ms", ""},
		{"* every 2 servfail", ""},
	} {
		t.Run(test.script+" "+test.options, func(t *testing.T) {
			ups, addrs := upstreams(t, 2)
			block := ""
			if test.options != "" {
				block = " {\n" + test.options + "\n}"
			}
			s := serve(t, "hedge ."+addrs+block)
			s.load(40, 2*time.Millisecond, fresh).noneFailed(t)
			ups[0].Set(test.script)
			c := s.load(100, 5*time.Millisecond, fresh)
			c.noneFailed(t)
			if len(c.failed) > 0 {
				t.Logf("%+v", groupOf(t).view.Health())
			}
		})
	}
	t.Run("down", func(t *testing.T) {
		ups, addrs := upstreams(t, 2)
		s := serve(t, "hedge ."+addrs)
		s.load(40, 2*time.Millisecond, fresh).noneFailed(t)
		ups[0].Down()
		s.load(100, 5*time.Millisecond, fresh).noneFailed(t)
		if !ejected(t, ups[0].Addr()) {
			t.Error("it is not ejected")
		}
		if err := ups[0].Up(); err != nil {
			t.Fatal(err)
		}
		// On a busy machine it was down for longer, and a probe or two found it so:
		// 1 s, 2 s and 4 s.
		within(t, 9*time.Second, "it is asked again", func() bool { return !ejected(t, ups[0].Addr()) })
	})
}

// TestAllDead: nobody answers. Every client is told so by the deadline, with why;
// upstreams see no more than the budget; the first success is served at once.
func TestAllDead(t *testing.T) {
	ups, addrs := upstreams(t, 3)
	s := serve(t, "hedge ."+addrs+" {\ndeadline 900ms\n}")
	s.load(50, 2*time.Millisecond, fresh).noneFailed(t)
	for _, u := range ups {
		u.Set("* drop")
		u.Reset()
	}
	const n = 400
	c := s.load(n, 5*time.Millisecond, fresh)
	if len(c.failed) != n {
		t.Errorf("%d of %d failed", len(c.failed), n)
	}
	if slowest := c.took[n-1]; slowest > figure(1000*time.Millisecond, 2*time.Second)+4*c.stood {
		t.Errorf("the slowest was told after %s", slowest)
	}
	if got, most := asked(ups...), n*11/10+20; got > most {
		t.Errorf("upstreams were asked %d times, at most %d", got, most)
	}
	m, _, err := s.ask("why.test")
	if err != nil || m.Rcode != dns.RcodeServerFailure || ede(m) != int(dns.ExtendedErrorCodeNoReachableAuthority) {
		t.Errorf("silence: %v %v", m, err)
	}
	for _, u := range ups {
		u.Set("")
	}
	m, took, err := s.ask(fresh(0))
	if bad := good(m, err); bad != "" || took > figure(50*time.Millisecond, 500*time.Millisecond) {
		t.Errorf("the first question after: %s after %s", bad, took)
	}
	for _, u := range ups {
		u.Down()
	}
	m, took, err = s.ask("network.test")
	if err != nil || m.Rcode != dns.RcodeServerFailure || ede(m) != int(dns.ExtendedErrorCodeNetworkError) || took > figure(100*time.Millisecond, 700*time.Millisecond) {
		t.Errorf("refused: after %s: %v %v", took, m, err)
	}
}

// TestBrokenDomain: one domain that fails everywhere, asked 10,000 times, ejects
// nobody and does not cost more than the budget, while others are answered.
func TestBrokenDomain(t *testing.T) {
	ups, addrs := upstreams(t, 2)
	for _, u := range ups {
		u.Set("broken.test servfail\nslow.test drop")
	}
	s := serve(t, "hedge ."+addrs+" {\ndeadline 200ms\n}")
	s.load(50, time.Millisecond, fresh).noneFailed(t)
	for _, u := range ups {
		u.Reset()
	}
	const n = 10000
	var wg sync.WaitGroup
	work := make(chan string)
	for range 32 {
		wg.Go(func() {
			for name := range work {
				if m, _, err := s.ask(name); err != nil || m.Rcode != dns.RcodeServerFailure {
					t.Error(name, m, err)
				}
			}
		})
	}
	for i := range n {
		name := "broken.test"
		if i%50 == 0 {
			name = "slow.test"
		}
		work <- name
	}
	close(work)
	wg.Wait()
	s.load(20, time.Millisecond, fresh).noneFailed(t)
	for _, u := range ups {
		if ejected(t, u.Addr()) {
			t.Errorf("%s is ejected", u.Addr())
		}
	}
	total := 0
	for _, u := range ups {
		total += int(u.Count().Queries)
	}
	// Beyond the tenth: the burst, and one a second while it takes.
	if most := (n+20)*11/10 + 20 + 30; total > most {
		t.Errorf("upstreams were asked %d times, at most %d", total, most)
	}
}

// TestTCPWedged: TCP to the only upstream is wedged while UDP works, and the other
// way round: the other transport is asked.
func TestTCPWedged(t *testing.T) {
	for _, test := range []struct{ script, options string }{{"*@tcp drop", "force_tcp"}, {"*@tcp close", "force_tcp"}, {"*@udp drop", "prefer_udp"}} {
		u := upstream.Run(t, "")
		s := serve(t, "hedge . "+u.Addr()+" {\n"+test.options+"\n}")
		s.load(30, 2*time.Millisecond, fresh).noneFailed(t)
		u.Set(test.script)
		c := s.load(100, 5*time.Millisecond, fresh)
		c.noneFailed(t)
		if p := c.p99(); p > figure(100*time.Millisecond, 700*time.Millisecond)+4*c.stood {
			t.Errorf("%s: 99 %% within %s", test.script, p)
		}
		if !ejected(t, u.Addr()) {
			t.Errorf("%s: not ejected over %s", test.script, groupOf(t).options.prefer())
		}
	}
}

// TestBounded: a slow upstream does not make goroutines and memory grow without
// bound: who is too many is told so at once.
func TestBounded(t *testing.T) {
	u := upstream.Run(t, "* delay 1500ms")
	s := serve(t, "hedge . "+u.Addr()+" {\nmax_concurrent 100\ndeadline 4s\n}")
	before := runtime.NumGoroutine()
	var most atomic.Int64
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				most.Store(max(most.Load(), groupOf(t).waiting.Load()))
			}
		}
	}()
	const n = 1000
	var wg sync.WaitGroup
	var full, ok, lost atomic.Int32
	for range n {
		time.Sleep(time.Millisecond) // what would not fit into the socket's buffer is not ours to bound
		wg.Go(func() {
			m, took, err := s.ask(fresh(0))
			switch {
			case err == nil && m.Rcode == dns.RcodeRefused && took < figure(100*time.Millisecond, 3*time.Second):
				full.Add(1)
			case good(m, err) == "":
				ok.Add(1)
			default:
				lost.Add(1)
				t.Logf("neither: %s (%d) after %s", good(m, err), ede(m), took)
			}
		})
	}
	wg.Wait()
	close(stop)
	if ok.Load() < 100 || full.Load() < n/2 || lost.Load() > n/100 {
		t.Errorf("of %d, %d were answered, %d refused and %d neither", n, ok.Load(), full.Load(), lost.Load())
	}
	if most.Load() > 100+10 { // who is refused is counted for a moment
		t.Errorf("%d questions at once, at most 100", most.Load())
	}
	within(t, 12*time.Second, "all is over", func() bool { return groupOf(t).waiting.Load() == 0 && runtime.NumGoroutine() <= before+20 })
}

// TestLargeAnswers: an answer that is longer than a datagram is fetched over TCP,
// and cut for the client only if it must be.
func TestLargeAnswers(t *testing.T) {
	u := upstream.Run(t, "big.test records 200")
	s := serve(t, "hedge . "+u.Addr())
	m := new(dns.Msg).SetQuestion("big.test.", dns.TypeA)
	if r, _, err := s.exchange(m, "tcp"); err != nil || len(r.Answer) != 200 || r.Truncated || r.IsEdns0() != nil {
		t.Errorf("over TCP: %v %v", r, err)
	}
	if r, _, err := s.exchange(m, "udp"); err != nil || !r.Truncated {
		t.Errorf("over UDP: %v %v", r, err)
	}
	m.SetEdns0(8192, true)
	if r, _, err := s.exchange(m, "udp"); err != nil || len(r.Answer) != 200 || !r.IsEdns0().Do() {
		t.Errorf("over UDP with room: %v %v", r, err)
	}
	u.Set("*@udp truncate\n*@tcp drop")
	if r, took, err := s.exchange(m, "udp"); err != nil || !r.Truncated || took > 5*time.Second {
		t.Errorf("what there is: %v %v", r, err)
	}
}

package drill_test

import (
	"errors"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/drill"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/miekg/dns"
)

// TestDeadMeansDead tries every mode on every transport, with one client that is
// drilled and one that is not.
func TestDeadMeansDead(t *testing.T) {
	s := start(t, drilling)
	for _, tc := range []struct {
		transport string
		dropped   error         // what the client sees of a dropped query
		within    time.Duration // when it sees it
	}{
		{"udp", errTimeout, 0},
		{"tcp", errClosed, 100 * time.Millisecond},
		{"tls", errClosed, 100 * time.Millisecond},
		{"quic", errClosed, 100 * time.Millisecond},
		{"https", errTimeout, 0},
		{"https3", errTimeout, 0},
		{"grpc", errTimeout, 0},
	} {
		t.Run(tc.transport, func(t *testing.T) {
			target, other := s.dial(t, tc.transport, victim), s.dial(t, tc.transport, bystand)
			answered := func(a asker, when string) {
				t.Helper()
				r, err := ask(a, question(), 5*time.Second)
				if err != nil || r.Rcode != dns.RcodeSuccess {
					t.Fatalf("%s: got %v, %v; want an answer", when, r, err)
				}
			}
			answered(target, "before")
			answered(other, "before")
			before := clients.Current().Stats(clients.Now())

			t.Run("drop", func(t *testing.T) {
				id := fresh("drop-" + tc.transport)
				startDrill(t, order(id, protocol.ModeDrop, victim+"/32"))
				began := time.Now()
				if r, err := ask(target, question(), patience); !errors.Is(err, tc.dropped) {
					t.Errorf("dropped: got %v, %v; want %v", r, err, tc.dropped)
				}
				if took := time.Since(began); tc.within != 0 && took > tc.within {
					t.Errorf("the client saw it after %s, want within %s", took, tc.within)
				}
				answered(other, "during")
				if got := recorded(t, id, victim); got.Drilled != 1 || got.Answers != 0 || len(got.Samples) != 1 || !got.Samples[0].Drilled {
					t.Errorf("recorded of the target: %+v", got)
				}
				if got := recorded(t, id, bystand); got.Drilled != 0 || got.Answers != 1 || len(got.Samples) != 1 || got.Samples[0].Drilled {
					t.Errorf("recorded of the other: %+v", got)
				}
			})
			again := s.dial(t, tc.transport, victim)
			answered(again, "after the drop")

			t.Run("refused", func(t *testing.T) {
				id := fresh("refused-" + tc.transport)
				startDrill(t, order(id, protocol.ModeRefused, victim+"/32"))
				r, err := ask(again, question(), 5*time.Second)
				if err != nil || r.Rcode != dns.RcodeRefused || r.IsEdns0() != nil {
					t.Errorf("without EDNS: got %v, %v; want REFUSED without EDNS", r, err)
				}
				q := question()
				q.SetEdns0(1400, true)
				r, err = ask(again, q, 5*time.Second)
				if err != nil || r.Rcode != dns.RcodeRefused {
					t.Fatalf("with EDNS: got %v, %v; want REFUSED", r, err)
				}
				opt := r.IsEdns0()
				if opt == nil || opt.UDPSize() != 1400 || !opt.Do() || len(opt.Option) != 1 {
					t.Fatalf("OPT is %v, want size 1400, DO, and one option", opt)
				}
				if ede, ok := opt.Option[0].(*dns.EDNS0_EDE); !ok || ede.InfoCode != dns.ExtendedErrorCodeNotReady || ede.ExtraText != "failover drill" {
					t.Errorf("option is %v, want extended error 14 (failover drill)", opt.Option[0])
				}
				answered(other, "during")
				if got := recorded(t, id, victim); got.Drilled != 2 || got.Answers != 0 || got.Errors != 0 {
					t.Errorf("recorded of the target: %+v", got)
				}
			})
			answered(again, "after all")

			// 3 drilled; answered: the other twice, the target twice.
			after := clients.Current().Stats(clients.Now())
			if d, a, r := after.Drilled-before.Drilled, after.Answers-before.Answers, after.Refused-before.Refused; d != 3 || a != 4 || r != 0 {
				t.Errorf("counted %d drilled, %d answers, %d refused; want 3, 4, 0", d, a, r)
			}
		})
	}
}

// A DoQ connection has a limit of streams that are open at once: those that were
// dropped must not count.
func TestDroppedStreamsLeaveTheConnectionUsable(t *testing.T) {
	s := start(t, drilling)
	a := s.dial(t, "quic", victim)
	id := fresh("many-streams")
	startDrill(t, order(id, protocol.ModeDrop, victim+"/32"))
	for i := range 1000 {
		if _, err := ask(a, question(), 5*time.Second); !errors.Is(err, errClosed) {
			t.Fatalf("stream %d: %v, want %v", i, err, errClosed)
		}
	}
	if _, problem := drill.Current().Delete(id); problem != nil {
		t.Fatal(problem)
	}
	if r, err := ask(a, question(), 5*time.Second); err != nil {
		t.Fatalf("after 1,000 dropped streams: %v, %v; want an answer", r, err)
	}
}

// What is held when the drill ends goes on down the chain, on a connection that
// was usable all the time.
func TestHeldQueriesAreAnsweredWhenTheDrillEnds(t *testing.T) {
	s := start(t, drilling)
	for _, transport := range []string{"https", "https3", "grpc"} {
		t.Run(transport, func(t *testing.T) {
			a := s.dial(t, transport, victim)
			if _, err := ask(a, question(), 5*time.Second); err != nil {
				t.Fatal(err)
			}
			id := fresh("held-" + transport)
			startDrill(t, order(id, protocol.ModeDrop, victim+"/32"))
			type result struct {
				r   *dns.Msg
				err error
			}
			got := make(chan result, 1)
			go func() {
				r, err := ask(a, question(), 20*time.Second)
				got <- result{r, err}
			}()
			waitFor(t, "the query to be held", func() bool { return drill.Current().Held() == 1 })
			select {
			case r := <-got:
				t.Fatalf("answered during the drill: %v", r)
			default:
			}
			if _, problem := drill.Current().Delete(id); problem != nil {
				t.Fatal(problem)
			}
			r := <-got
			if r.err != nil || r.r.Rcode != dns.RcodeSuccess {
				t.Fatalf("after the end: %v, %v; want an answer", r.r, r.err)
			}
			waitFor(t, "nothing to be held", func() bool { return drill.Current().Held() == 0 })
			// Its question was not lost: the answer stands at the question's end.
			if rec := recorded(t, id, victim); len(rec.Samples) != 2 || !rec.Samples[0].Drilled || rec.Samples[1].Drilled || rec.Samples[1].FirstMs != rec.Samples[0].LastMs {
				t.Errorf("recorded of the target: %+v", rec)
			}
		})
	}
}

// A client that gives up frees its place.
func TestHeldQueriesEndWithTheirClient(t *testing.T) {
	s := start(t, drilling)
	startDrill(t, order(fresh("given-up"), protocol.ModeDrop, victim+"/32"))
	for _, transport := range []string{"https", "https3", "grpc"} {
		a := s.dial(t, transport, victim)
		if _, err := ask(a, question(), patience); !errors.Is(err, errTimeout) {
			t.Errorf("%s: %v, want %v", transport, err, errTimeout)
		}
		waitFor(t, transport+": the place to be free", func() bool { return drill.Current().Held() == 0 })
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

package drill_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/drill"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

// epoch tells whether the drill was on for the whole of something: it is odd from
// when a start was confirmed until right before the end is asked for, and another
// number for each drill.
type epoch struct{ atomic.Int64 }

// throughout reports whether one drill was on since the given reading.
func (e *epoch) throughout(since int64) bool { return since%2 == 1 && e.Load() == since }

// exchanger asks once, on a connection of its own where that is not HTTP's to keep.
type exchanger func(m *dns.Msg, patience time.Duration) (*dns.Msg, error)

func (s *server) exchanger(t *testing.T, transport, from string) exchanger {
	t.Helper()
	ip := net.ParseIP(from)
	var local net.Addr = &net.UDPAddr{IP: ip}
	switch transport {
	case "https":
		a := s.dial(t, transport, from)
		return func(m *dns.Msg, patience time.Duration) (*dns.Msg, error) { return ask(a, m, patience) }
	case "tcp":
		local = &net.TCPAddr{IP: ip}
	}
	addr := s.ports["dns"]
	return func(m *dns.Msg, patience time.Duration) (*dns.Msg, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		c := dns.Client{Net: transport, Timeout: patience, Dialer: &net.Dialer{LocalAddr: local}}
		r, _, err := c.ExchangeContext(ctx, m, addr)
		return r, outcome(ctx, err)
	}
}

// TestEverythingAtOnce has drills begin and end, Corefiles reloaded and recordings and
// metrics read while two clients ask on three transports. Whoever is drilled is
// never answered meanwhile (but with REFUSED where it is held and a reload lets it
// go), nobody else loses a query, and nothing keeps running.
// It is here for the race detector most of all.
func TestEverythingAtOnce(t *testing.T) {
	const lasts = 6 * time.Second
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, slices.Concat(notOurs, []goleak.Option{before})...) }) // after the server's end
	s := start(t, drilling)

	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	var all sync.WaitGroup
	var on epoch
	var id atomic.Value // of the drill that is on, or was last
	id.Store("")

	type tally struct{ silent, released, answered, others atomic.Int64 }
	tallies := map[string]*tally{}
	for _, transport := range []string{"udp", "tcp", "https"} {
		sum := &tally{}
		tallies[transport] = sum
		target, other := s.exchanger(t, transport, victim), s.exchanger(t, transport, bystand)
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				m := numbered(transport, n)
				since := on.Load()
				r, err := target(m, 50*time.Millisecond)
				drilled := on.throughout(since)
				switch {
				case err == nil && drilled && transport == "https" && r.Rcode == dns.RcodeRefused:
					sum.released.Add(1) // a reload does not wait for what is held
				case err == nil && drilled:
					t.Errorf("%s: drilled, and answered %s", transport, dns.RcodeToString[r.Rcode])
				case err == nil:
					sum.answered.Add(1)
				case drilled:
					sum.silent.Add(1)
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := insist(other, numbered(transport, n)); err != nil {
					t.Errorf("%s: query %d of the other was lost: %v", transport, n, err)
				}
				sum.others.Add(1)
				time.Sleep(2 * time.Millisecond)
			}
		})
	}

	var drilled, reloads, reads atomic.Int64
	all.Go(func() { // the controller
		for ctx.Err() == nil {
			o := order(fresh("at-once"), protocol.ModeDrop, victim+"/32")
			id.Store(o.ID)
			if _, problem := clients.Current().Record(o.ID, protocol.RecordingOrder{Fleet: o.Fleet, Seconds: 120, Targets: o.Targets}, clients.Now()); problem != nil {
				t.Error(problem)
				return
			}
			if _, problem := drill.Current().Start(o); problem != nil {
				t.Error(problem)
				return
			}
			on.Add(1)
			for range 6 {
				time.Sleep(50 * time.Millisecond)
				if _, problem := drill.Current().Renew(o.ID); problem != nil {
					t.Error(problem)
				}
			}
			on.Add(1)
			if _, problem := drill.Current().Delete(o.ID); problem != nil {
				t.Error(problem)
			}
			clients.Current().Forget(o.ID)
			drilled.Add(1)
			time.Sleep(100 * time.Millisecond)
		}
	})
	all.Go(func() { // who reads
		for ctx.Err() == nil {
			if rec, ok := clients.Current().ReadRecording(id.Load().(string), reads.Load()%2 == 0, 0, clients.Now()); ok {
				for _, c := range rec.Clients {
					if c.Address == bystand && c.Drilled > 0 {
						t.Errorf("recorded as drilled, and no target: %+v", c)
					}
				}
				reads.Add(1)
			}
			drill.Current().State()
			if _, err := prometheus.DefaultGatherer.Gather(); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	for ctx.Err() == nil { // whoever edits the Corefile: here, since it stands in s
		if err := s.reload(drilling); err != nil {
			t.Error(err)
			break
		}
		reloads.Add(1)
		time.Sleep(150 * time.Millisecond)
	}
	all.Wait()

	t.Logf("%d drills, %d reloads, %d recordings read", drilled.Load(), reloads.Load(), reads.Load())
	if drilled.Load() < 3 || reloads.Load() < 3 || reads.Load() < 3 {
		t.Error("too little went on at once to tell anything")
	}
	for transport, sum := range tallies {
		t.Logf("%s: the target was left alone %d times while drilled (and %d times let go by a reload) and answered %d times while not; the other was answered %d times",
			transport, sum.silent.Load(), sum.released.Load(), sum.answered.Load(), sum.others.Load())
		if sum.silent.Load() == 0 || sum.answered.Load() == 0 || sum.others.Load() == 0 {
			t.Errorf("%s: too little was asked to tell anything", transport)
		}
	}
	if held := drill.Current().Held(); held != 0 {
		t.Errorf("%d are held, and no drill is on", held)
	}
}

func numbered(transport string, n int) *dns.Msg {
	m := question()
	m.Question[0].Name = fmt.Sprintf("%s%d.example.org.", transport, n)
	return m
}

// insist asks as a client does whose connection was closed by a reload: again, on
// another one. Whom it takes more than a few tries has lost its query.
func insist(ask exchanger, m *dns.Msg) (err error) {
	for range 4 {
		var r *dns.Msg
		if r, err = ask(m, 5*time.Second); err == nil {
			if r.Rcode != dns.RcodeSuccess {
				return errors.New(dns.RcodeToString[r.Rcode])
			}
			return nil
		}
		if errors.Is(err, errTimeout) || !closedOrRefused(err) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func closedOrRefused(err error) bool {
	return errors.Is(err, errClosed) || strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "GOAWAY")
}

package drill

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"pgregory.net/rapid"
)

const testToken = "00112233445566778899aabbccddeeff"

func testOrder(id string) protocol.Order {
	return protocol.Order{
		ID: id, Fleet: "f", Mode: protocol.ModeDrop, DurationSeconds: 60, Readiness: protocol.ReadinessFail,
		Targets: []string{"192.0.2.0/24"}, ProbeToken: testToken,
	}
}

// testEngine records for whichever drill is asked.
func testEngine() (e *Engine, recording *atomic.Pointer[protocol.RecordingState]) {
	recording = new(atomic.Pointer[protocol.RecordingState])
	return newEngine(func(clients.Moment) *protocol.RecordingState { return recording.Load() },
		func() ([]netip.Prefix, error) { return []netip.Prefix{netip.MustParsePrefix("192.0.2.53/32")}, nil },
		func() {}), recording
}

func mustStart(t *testing.T, e *Engine, recording *atomic.Pointer[protocol.RecordingState], o protocol.Order) *protocol.DrillState {
	t.Helper()
	recording.Store(&protocol.RecordingState{Drill: o.ID})
	s, problem := e.Start(o)
	if problem != nil {
		t.Fatal(problem)
	}
	return s
}

func wantProblem(t *testing.T, problem *protocol.Problem, reason protocol.Reason) {
	t.Helper()
	if problem == nil || problem.Reason() != reason || problem.Detail == "" {
		t.Errorf("got %v, want %s", problem, reason)
	}
}

func wantEnd(t *testing.T, e *Engine, id string, why protocol.DrillEnd, after time.Duration) {
	t.Helper()
	s := e.State()
	if e.Running() != nil || s == nil || s.ID != id || s.End != why || s.Ended == nil || s.Ended.Sub(s.Started) != after {
		t.Errorf("state is %+v, want %s ended %s after %s", s, id, why, after)
	}
}

func TestDrillExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, rec := testEngine()
		s := mustStart(t, e, rec, testOrder("d"))
		if !s.EndsAt.Equal(s.Started.Add(time.Minute)) || !s.LeaseEnds.Equal(s.Started.Add(30*time.Second)) || s.Ended != nil {
			t.Errorf("state is %+v", s)
		}
		for range 2 {
			time.Sleep(29 * time.Second)
			renewed, problem := e.Renew("d")
			if problem != nil {
				t.Fatal(problem)
			}
			if !renewed.EndsAt.Equal(s.EndsAt) {
				t.Errorf("a renewal moved the end to %s", renewed.EndsAt)
			}
		}
		time.Sleep(2*time.Second - time.Nanosecond)
		if e.Running() == nil {
			t.Error("it ended too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		wantEnd(t, e, "d", protocol.EndExpired, time.Minute)
	})
}

func TestDrillIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, rec := testEngine()
		mustStart(t, e, rec, testOrder("d"))
		time.Sleep(20 * time.Second)
		if _, problem := e.Renew("d"); problem != nil {
			t.Fatal(problem)
		}
		time.Sleep(30*time.Second - time.Nanosecond)
		if e.Running() == nil {
			t.Error("it ended before its lease")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		wantEnd(t, e, "d", protocol.EndAbandoned, 50*time.Second)
		_, problem := e.Renew("d")
		wantProblem(t, problem, protocol.ReasonDrillEnded)
	})
}

// A short drill ends with its time, not with its lease.
func TestShortDrill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, rec := testEngine()
		o := testOrder("d")
		o.DurationSeconds = protocol.MinDrillSeconds
		mustStart(t, e, rec, o)
		time.Sleep(protocol.MinDrillSeconds * time.Second)
		synctest.Wait()
		wantEnd(t, e, "d", protocol.EndExpired, protocol.MinDrillSeconds*time.Second)
	})
}

func TestOneDrillAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, rec := testEngine()
		_, problem := e.Start(testOrder("d1"))
		wantProblem(t, problem, protocol.ReasonNotRecording)
		rec.Store(&protocol.RecordingState{Drill: "other"})
		_, problem = e.Start(testOrder("d1"))
		wantProblem(t, problem, protocol.ReasonNotRecording)
		rec.Store(&protocol.RecordingState{Drill: "d1", Frozen: true})
		_, problem = e.Start(testOrder("d1"))
		wantProblem(t, problem, protocol.ReasonNotRecording)

		first := mustStart(t, e, rec, testOrder("d1"))
		time.Sleep(time.Second)
		again, problem := e.Start(testOrder("d1")) // the answer was lost, say
		if problem != nil || !again.Started.Equal(first.Started) || !again.EndsAt.Equal(first.EndsAt) {
			t.Errorf("the same order again: %+v, %v; want no change from %+v", again, problem, first)
		}
		changed := testOrder("d1")
		changed.Exclude = []string{"192.0.2.7/32"}
		_, problem = e.Start(changed)
		wantProblem(t, problem, protocol.ReasonDrillRunning)
		rec.Store(&protocol.RecordingState{Drill: "d2"})
		_, problem = e.Start(testOrder("d2"))
		wantProblem(t, problem, protocol.ReasonDrillRunning)
		_, problem = e.Renew("d2")
		wantProblem(t, problem, protocol.ReasonNotFound)

		s, problem := e.Delete("d1")
		if problem != nil || s.End != protocol.EndDeleted || s.Ended == nil {
			t.Errorf("deleted: %+v, %v", s, problem)
		}
		if s, problem = e.Delete("d1"); problem != nil || s.End != protocol.EndDeleted {
			t.Errorf("deleted twice: %+v, %v", s, problem)
		}
		rec.Store(&protocol.RecordingState{Drill: "d1"})
		_, problem = e.Start(testOrder("d1"))
		wantProblem(t, problem, protocol.ReasonDrillEnded)
	})
}

// A DELETE that overtakes its PUT wins.
func TestDeletedBeforeItCame(t *testing.T) {
	e, rec := testEngine()
	s, problem := e.Delete("late")
	if problem != nil || s.ID != "late" || s.End != protocol.EndDeleted {
		t.Errorf("deleted: %+v, %v", s, problem)
	}
	rec.Store(&protocol.RecordingState{Drill: "late"})
	_, problem = e.Start(testOrder("late"))
	wantProblem(t, problem, protocol.ReasonDrillEnded)
	if e.State() != nil {
		t.Errorf("state is %+v: there never was a drill", e.State())
	}
	_, problem = e.Delete("NOT AN ID")
	wantProblem(t, problem, protocol.ReasonBadRequest)
}

func TestEndedIDsAreBounded(t *testing.T) {
	e, _ := testEngine()
	for i := range 3 * endedKept {
		if _, problem := e.Delete(fmt.Sprint("d", i)); problem != nil {
			t.Fatal(problem)
		}
	}
	if n := len(e.ended); n != endedKept {
		t.Errorf("%d ids are kept, want %d", n, endedKept)
	}
	for i := 2 * endedKept; i < 3*endedKept; i++ {
		if _, kept := e.ended[fmt.Sprint("d", i)]; !kept {
			t.Fatalf("one of the last %d is forgotten", endedKept)
		}
	}
}

func TestNoDrillWithoutOwnAddresses(t *testing.T) {
	e, rec := testEngine()
	e.own = func() ([]netip.Prefix, error) { return nil, errors.New("no netlink") }
	rec.Store(&protocol.RecordingState{Drill: "d"})
	_, problem := e.Start(testOrder("d"))
	wantProblem(t, problem, protocol.ReasonInternal)
	if e.Running() != nil {
		t.Error("it runs")
	}
}

func TestOrders(t *testing.T) {
	for _, tc := range []struct {
		field string
		set   func(*protocol.Order)
	}{
		{"id", func(o *protocol.Order) { o.ID = "" }},
		{"id", func(o *protocol.Order) { o.ID = "A" }},
		{"id", func(o *protocol.Order) { o.ID = strings.Repeat("a", 65) }},
		{"fleet", func(o *protocol.Order) { o.Fleet = "" }},
		{"fleet", func(o *protocol.Order) { o.Fleet = "a\nb" }},
		{"by", func(o *protocol.Order) { o.By = "\x1b[2J" }},
		{"reason", func(o *protocol.Order) { o.Reason = "\xff" }},
		{"reason", func(o *protocol.Order) { o.Reason = strings.Repeat("a", protocol.MaxReason+1) }},
		{"mode", func(o *protocol.Order) { o.Mode = "slow" }},
		{"mode", func(o *protocol.Order) { o.Mode = "" }},
		{"readiness", func(o *protocol.Order) { o.Readiness = "" }},
		{"durationSeconds", func(o *protocol.Order) { o.DurationSeconds = 14 }},
		{"durationSeconds", func(o *protocol.Order) { o.DurationSeconds = 301 }},
		{"durationSeconds", func(o *protocol.Order) { o.DurationSeconds = -60 }},
		{"probeToken", func(o *protocol.Order) { o.ProbeToken = "" }},
		{"probeToken", func(o *protocol.Order) { o.ProbeToken = testToken + "00" }},
		{"probeToken", func(o *protocol.Order) { o.ProbeToken = "g" + testToken[1:] }},
		{"targets", func(o *protocol.Order) { o.Targets = nil }},
		{"targets", func(o *protocol.Order) { o.Everyone = true }},
		{"targets[3]", func(o *protocol.Order) {
			o.Targets = []string{"192.0.2.0/24", "2001:db8::/32", "198.51.100.1/32", "10.0.0.1"}
		}},
		{"targets[0]", func(o *protocol.Order) { o.Targets = []string{"192.0.2.1/24"} }},
		{"targets[0]", func(o *protocol.Order) { o.Targets = []string{"::ffff:192.0.2.0/120"} }},
		{"targets", func(o *protocol.Order) { o.Targets = make([]string, protocol.MaxPrefixes+1) }},
		{"exclude[1]", func(o *protocol.Order) { o.Exclude = []string{"10.0.0.0/8", "x"} }},
		{"never[0]", func(o *protocol.Order) { o.Never = []string{"10.0.0.0/33"} }},
	} {
		o := testOrder("d")
		tc.set(&o)
		_, problem := checkOrder(o)
		if problem == nil || problem.Field != tc.field || problem.Reason() != protocol.ReasonBadRequest || problem.Status != 400 || problem.Detail == "" {
			t.Errorf("%+v: got %v, want a bad request in field %s", o, problem, tc.field)
		}
	}
	for _, set := range []func(*protocol.Order){
		func(*protocol.Order) {},
		func(o *protocol.Order) { o.DurationSeconds = 15 },
		func(o *protocol.Order) {
			o.DurationSeconds, o.Mode, o.Readiness = 300, protocol.ModeRefused, protocol.ReadinessPass
		},
		func(o *protocol.Order) { o.Everyone, o.Targets = true, []string{} },
	} {
		o := testOrder("d")
		set(&o)
		if _, problem := checkOrder(o); problem != nil {
			t.Errorf("%+v: %v", o, problem)
		}
	}
}

// What is decoded either is an order within its bounds or names a problem.
func FuzzOrder(f *testing.F) {
	f.Add(`{"id":"d","fleet":"f","mode":"drop","durationSeconds":60,"readiness":"fail","targets":["192.0.2.0/24"],"probeToken":"` + testToken + `"}`)
	f.Add(`{"id":"d","everyone":true,"exclude":["::/0"],"never":["10.0.0.1/32"]}`)
	f.Add(`{"Id":"d"}`)
	f.Fuzz(func(t *testing.T, body string) {
		var o protocol.Order
		if protocol.Decode(strings.NewReader(body), &o) != nil {
			return
		}
		c, problem := checkOrder(o)
		if problem != nil {
			if problem.Field == "" || problem.Status != 400 {
				t.Fatalf("%v names no field", problem)
			}
			return
		}
		if c.length < 15*time.Second || c.length > 300*time.Second || len(c.targets) == 0 {
			t.Fatalf("out of bounds: %+v", c)
		}
		targets(c, nil)
		if !c.same(c) {
			t.Fatal("an order is not the same as itself")
		}
	})
}

// TestTargets holds the set to what an order says, read word for word.
func TestTargets(t *testing.T) {
	prefix := rapid.Custom(func(t *rapid.T) netip.Prefix {
		if rapid.Bool().Draw(t, "v6") {
			a := [16]byte{0: 0x20, 15: rapid.ByteRange(0, 15).Draw(t, "last")}
			return netip.PrefixFrom(netip.AddrFrom16(a), rapid.IntRange(120, 128).Draw(t, "bits")).Masked()
		}
		a := [4]byte{10, 0, 0, rapid.ByteRange(0, 31).Draw(t, "last")}
		return netip.PrefixFrom(netip.AddrFrom4(a), rapid.IntRange(0, 32).Draw(t, "bits")).Masked()
	})
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(prefix, 0, 6)
		o := &order{targets: list.Draw(t, "targets"), spared: list.Draw(t, "spared")}
		own := list.Draw(t, "own")
		r := &Running{set: targets(o, own)}
		in := func(list []netip.Prefix, a netip.Addr) bool {
			for _, p := range list {
				if p.Contains(a) {
					return true
				}
			}
			return false
		}
		for i := range byte(40) {
			for _, a := range []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, i}), netip.AddrFrom16([16]byte{0: 0x20, 15: i})} {
				want := in(o.targets, a) && !in(o.spared, a) && !in(own, a)
				if got := r.Hits(a); got != want {
					t.Fatalf("%s is drilled: %v, want %v", a, got, want)
				}
			}
		}
	})
}

func TestNeverDrilled(t *testing.T) {
	own, err := ownPrefixes()
	if err != nil {
		t.Fatal(err)
	}
	o := testOrder("d")
	o.Everyone, o.Targets = true, nil
	c, problem := checkOrder(o)
	if problem != nil {
		t.Fatal(problem)
	}
	r := &Running{set: targets(c, own)}
	for a, want := range map[string]bool{"127.0.0.1": false, "::1": false, "127.0.0.2": true, "127.1.2.3": true, "192.0.2.1": true, "2001:db8::1": true} {
		if got := r.Hits(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s is drilled: %v, want %v", a, got, want)
		}
	}
}

// A reload looks again at what is spared, and the drill goes on.
func TestRefresh(t *testing.T) {
	e, rec := testEngine()
	mustStart(t, e, rec, testOrder("d"))
	defer e.Remove()
	a := netip.MustParseAddr("192.0.2.9")
	if !e.Running().Hits(a) {
		t.Fatal("not drilled")
	}
	e.Running().Count()
	e.own = func() ([]netip.Prefix, error) { return []netip.Prefix{netip.PrefixFrom(a, 32)}, nil }
	e.Refresh()
	if e.Running().Hits(a) {
		t.Error("still drilled")
	}
	if s := e.State(); s.Drilled != 1 {
		t.Errorf("state is %+v", s)
	}
}

func TestHoldIsBounded(t *testing.T) {
	e, rec := testEngine()
	mustStart(t, e, rec, testOrder("d"))
	r, stay := e.Running(), newLeave()
	ctx, giveUp := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	ends := make(chan held, maxHeld)
	for range maxHeld {
		wg.Go(func() { ends <- e.hold(ctx, r, stay.soon()) })
	}
	for e.Held() < maxHeld {
		time.Sleep(time.Millisecond)
	}
	if got := e.hold(ctx, r, stay.soon()); got != heldFull {
		t.Errorf("one too many: %v, want %v", got, heldFull)
	}
	giveUp()
	wg.Wait()
	close(ends)
	for got := range ends {
		if got != heldGaveUp {
			t.Fatalf("ended as %v, want %v", got, heldGaveUp)
		}
	}
	ctx = context.Background()
	stay.now()
	if got := e.hold(ctx, r, stay.soon()); got != heldLeaving {
		t.Errorf("while leaving: %v, want %v", got, heldLeaving)
	}
	stay.stay()
	wg.Go(func() {
		if got := e.hold(ctx, r, stay.soon()); got != heldEnded {
			t.Errorf("at the drill's end: %v, want %v", got, heldEnded)
		}
	})
	for e.Held() != 1 {
		time.Sleep(time.Millisecond)
	}
	e.Remove()
	wg.Wait()
	if e.Held() != 0 {
		t.Errorf("%d places are still taken", e.Held())
	}
}

func TestRunningDoesNotAllocate(t *testing.T) {
	e, rec := testEngine()
	a := netip.MustParseAddr("192.0.2.9")
	if n := testing.AllocsPerRun(100, func() { _ = e.Running() }); n != 0 {
		t.Errorf("idle: %v allocations", n)
	}
	mustStart(t, e, rec, testOrder("d"))
	defer e.Remove()
	token := []byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	if n := testing.AllocsPerRun(100, func() {
		if r := e.Running(); !r.Hits(a) || !r.Probe(token) || r.Probe(token[1:]) {
			t.Fatal("wrong")
		}
	}); n != 0 {
		t.Errorf("running: %v allocations", n)
	}
}

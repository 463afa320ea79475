package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is a network whose upstreams change their ways at random.
type world struct {
	network
	replies []int  // per question, Late aside
	by      []Time // when it was replied to
	good    []bool
	told    []Time // when each of sent, Truncated aside, was sent
	askedAt []Time
	ejected []Event
}

func newWorld(t *rapid.T, n int) *world {
	w := &world{}
	w.core = New(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)).IntN)
	w.view = w.core.View(Options{Deadline: 900 * time.Millisecond, Life: 1900 * time.Millisecond, Prefer: Transport(rapid.IntRange(0, 1).Draw(t, "prefer"))})
	var list []Upstream
	for i := range n {
		list = append(list, Upstream{Key: fmt.Sprint(i), Tier: rapid.IntRange(0, 1).Draw(t, "tier")})
	}
	w.view.Replace(list)
	w.onStep = func(q int, s Step) {
		for len(w.replies) <= q {
			w.replies, w.by, w.good = append(w.replies, 0), append(w.by, 0), append(w.good, false)
			w.askedAt = append(w.askedAt, w.now)
		}
		if s.Send != nil && s.Send.Reason != Truncated {
			w.told = append(w.told, w.now)
		}
		if s.Reply != None && s.Reply != Late {
			w.replies[q]++
			w.by[q] = w.now
			w.good[q] = s.Reply == Answer && (s.From.outcome == Good)
		}
	}
	w.onEvent = func(e Event) {
		if e.Ejected {
			w.ejected = append(w.ejected, e)
		}
	}
	return w
}

func (w *world) probe() {
	before := w.probes
	w.network.probe()
	for range w.probes - before {
		w.told = append(w.told, w.now)
	}
}

var ways = []answer{
	{Good, time.Millisecond}, {Good, 20 * time.Millisecond}, {Good, 300 * time.Millisecond}, {Good, 3 * time.Second},
	{ServFail, time.Millisecond}, {Refused, 0}, {Cut, time.Millisecond}, {Failed, 0}, {Failed, 40 * time.Millisecond}, {gone, -1},
}

// TestEveryQuestionOnce: every question is answered exactly once, by its
// deadline, whatever upstreams do; and nothing stays in flight.
func TestEveryQuestionOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 4).Draw(t, "upstreams")
		w := newWorld(t, n)
		table := make(map[string]answer)
		w.behave = func(key string, tr Transport, _ int) (Outcome, time.Duration) {
			a := table[key+tr.String()]
			return a.outcome, a.delay
		}
		for range rapid.IntRange(1, 6).Draw(t, "phases") {
			for i := range n {
				for _, tr := range []Transport{UDP, TCP} {
					table[fmt.Sprint(i)+tr.String()] = rapid.SampledFrom(ways).Draw(t, "way")
				}
			}
			for range rapid.IntRange(1, 40).Draw(t, "questions") {
				w.ask()
				w.run(w.now + time.Duration(rapid.IntRange(0, 100).Draw(t, "gap"))*time.Millisecond)
			}
		}
		w.run(w.now + 5*time.Second)
		for q, n := range w.replies {
			if n != 1 {
				t.Fatalf("question %d has %d replies", q, n)
			}
			if took := w.by[q] - w.askedAt[q]; took > 900*time.Millisecond {
				t.Fatalf("question %d was answered after %s", q, took)
			}
		}
		for _, h := range w.view.Health() {
			for _, l := range h.Links {
				if l.InFlight != 0 {
					t.Fatalf("%s %s: %d in flight", h.Key, l.Transport, l.InFlight)
				}
			}
		}
	})
}

// TestAmplification: over any ten seconds, upstreams are asked at most 1.1 times
// what clients ask, and the burst of 20; probes count, whatever upstreams do.
func TestAmplification(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "upstreams")
		w := newWorld(t, n)
		table := make(map[string]answer)
		w.behave = func(key string, tr Transport, _ int) (Outcome, time.Duration) {
			a := table[key+tr.String()]
			return a.outcome, a.delay
		}
		gap := time.Duration(rapid.IntRange(5, 100).Draw(t, "gap")) * time.Millisecond // ten a second or more
		for range 3 {
			for i := range n {
				for _, tr := range []Transport{UDP, TCP} {
					table[fmt.Sprint(i)+tr.String()] = rapid.SampledFrom(ways).Draw(t, "way")
				}
			}
			for until := w.now + 6*time.Second; w.now < until; {
				w.ask()
				w.run(w.now + gap)
			}
		}
		// Probes go through network.probe, which counts them in w.probes only; the
		// sum over the whole holds for them, the windows for questions.
		if most := 1.1*float64(w.asked) + budgetHolds; float64(len(w.told)+w.probes) > most+1 {
			t.Fatalf("%d questions: %d asked and %d probes", w.asked, len(w.told), w.probes)
		}
		slices.Sort(w.told)
		for from := Time(0); from+10*time.Second <= w.now; from += time.Second {
			q, _ := slices.BinarySearch(w.askedAt, from)
			r, _ := slices.BinarySearch(w.askedAt, from+10*time.Second)
			a, _ := slices.BinarySearch(w.told, from)
			b, _ := slices.BinarySearch(w.told, from+10*time.Second)
			if float64(b-a) > 1.1*float64(r-q)+budgetHolds+1 {
				t.Fatalf("from %s: %d questions, %d asked", from, r-q, b-a)
			}
		}
	})
}

// TestBrokenDomain: domains that fail, are refused or time out everywhere eject
// nobody, however often they are asked and whatever else is.
func TestBrokenDomain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.IntRange(1, 4).Draw(t, "upstreams"))
		bad := map[int]answer{}
		w.behave = func(_ string, _ Transport, q int) (Outcome, time.Duration) {
			if a, ok := bad[q]; ok {
				return a.outcome, a.delay
			}
			return Good, time.Millisecond
		}
		for range rapid.IntRange(10, 300).Draw(t, "questions") {
			if rapid.IntRange(0, 9).Draw(t, "broken") < 9 {
				bad[w.asked] = rapid.SampledFrom([]answer{{ServFail, time.Millisecond}, {Refused, 0}, {gone, -1}, {ServFail, 800 * time.Millisecond}}).Draw(t, "how")
			}
			w.ask()
			w.run(w.now + time.Duration(rapid.IntRange(0, 20).Draw(t, "gap"))*time.Millisecond)
		}
		w.run(w.now + 5*time.Second)
		if len(w.ejected) > 0 {
			t.Fatalf("ejected: %+v", w.ejected)
		}
	})
}

// TestOneIsWell: while one upstream answers well, no question fails, whatever the
// others do from one moment on, as long as there is budget; and it is not ejected.
func TestOneIsWell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(t, "upstreams")
		w := newWorld(t, n)
		table := make(map[string]answer)
		w.behave = func(key string, tr Transport, _ int) (Outcome, time.Duration) {
			if a, ok := table[key]; ok {
				return a.outcome, a.delay
			}
			return Good, time.Millisecond
		}
		questions := func(n int) {
			for range n {
				w.ask()
				w.run(w.now + time.Duration(rapid.IntRange(2, 20).Draw(t, "gap"))*time.Millisecond)
			}
		}
		questions(50)
		bad := rapid.SampledFrom([]answer{{ServFail, time.Millisecond}, {Refused, 0}, {Failed, 0}, {gone, -1}}).Draw(t, "way")
		for i := range n - 1 {
			table[fmt.Sprint(i)] = bad
			questions(30)
		}
		questions(100)
		w.run(w.now + 5*time.Second)
		for q, ok := range w.good {
			if !ok {
				t.Fatalf("question %d of %d failed (%v, budget %.1f, denied %d)", q, w.asked, bad, w.core.budget.tokens, w.core.denied)
			}
		}
		for _, e := range w.ejected {
			if e.Key == fmt.Sprint(n-1) {
				t.Fatalf("the one that is well was ejected: %+v", e)
			}
		}
	})
}

// TestReplace: only what is listed is asked, and what is not listed is forgotten.
func TestReplace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New(rand.New(rand.NewPCG(1, 1)).IntN)
		views := []*View{c.View(Options{}), c.View(Options{})}
		lists := make([][]string, len(views))
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "view")
			keys := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "tls://d"}), rapid.ID[string]).Draw(t, "keys")
			var list []Upstream
			for _, k := range keys {
				list = append(list, Upstream{Key: k})
			}
			views[i].Replace(list)
			lists[i] = keys
			if got := views[i].Keys(); !slices.Equal(got, keys) && len(got)+len(keys) > 0 {
				t.Fatalf("got %v, want %v", got, keys)
			}
			if _, s := views[i].Ask(0); s.Send == nil != (len(keys) == 0) || s.Send != nil && !slices.Contains(keys, s.Send.Key) {
				t.Fatalf("%v: asks %v", keys, s.Send)
			}
		}
		for k := range c.servers {
			if !slices.Contains(lists[0], k) && !slices.Contains(lists[1], k) {
				t.Fatalf("%s is kept", k)
			}
		}
	})
}

package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestTranscripts tells the stories under testdata. Write the output anew with
// -rewrite, and read it.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.tell(t, d) })
	})
}

// story is a shell whose sockets are a script.
type story struct {
	network
	net   map[string]answer // "a", "a/tcp", "a#broken": the most exact counts
	names []string          // of the questions
	out   strings.Builder
	quiet bool
}

type answer struct {
	outcome Outcome
	delay   time.Duration
}

func (s *story) tell(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	switch d.Cmd {
	case "new":
		// new [prefer=tcp] [warm]: KEY [TIER] lines.
		o := Options{Deadline: 900 * time.Millisecond, Life: 1900 * time.Millisecond}
		if d.HasArg("prefer") {
			o.Prefer = TCP
		}
		*s = story{net: map[string]answer{}}
		s.core = New(rand.New(rand.NewPCG(1, 2)).IntN)
		s.view = s.core.View(o)
		s.behave, s.onStep, s.onEvent = s.answer, s.step, s.event
		s.view.Replace(upstreams(d.Input))
		if d.HasArg("warm") {
			s.warm()
		}
	case "upstreams":
		s.view.Replace(upstreams(d.Input))
	case "net":
		// net: KEY[/TRANSPORT][#QUESTION] OUTCOME DELAY lines, or KEY drop.
		for _, line := range lines(d.Input) {
			var who, what, delay string
			fmt.Sscan(line, &who, &what, &delay)
			if what == "drop" {
				s.net[who] = answer{gone, -1}
				continue
			}
			took, err := time.ParseDuration(delay)
			if err != nil {
				t.Fatal(err)
			}
			s.net[who] = answer{outcomeOf(t, what), took}
		}
	case "ask":
		// ask [quiet]: NAME [times=N every=D] or +DURATION lines.
		s.quiet = d.HasArg("quiet")
		for _, line := range lines(d.Input) {
			if d, ok := strings.CutPrefix(line, "+"); ok {
				took, err := time.ParseDuration(d)
				if err != nil {
					t.Fatal(err)
				}
				s.run(s.now + took)
				continue
			}
			name, times, every := "", 1, "0s"
			fmt.Sscan(line, &name, &times, &every)
			gap, err := time.ParseDuration(every)
			if err != nil {
				t.Fatal(err)
			}
			for range times {
				s.names = append(s.names, name)
				s.ask()
				if gap > 0 {
					s.run(s.now + gap)
				}
			}
		}
	case "health":
		s.health()
	case "broke":
		s.core.budget.tokens = 0
	default:
		t.Fatalf("unknown command %q", d.Cmd)
	}
	return s.out.String()
}

func lines(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == '\n' })
}

func upstreams(input string) (list []Upstream) {
	for _, line := range lines(input) {
		var u Upstream
		fmt.Sscan(line, &u.Key, &u.Tier)
		list = append(list, u)
	}
	return list
}

// warm has every upstream answer twenty questions in a millisecond.
func (s *story) warm() {
	for _, m := range s.view.members {
		for _, l := range m.links {
			for range 20 {
				if l != nil {
					l.latency.add(time.Millisecond, s.now)
					l.heard = s.now
				}
			}
		}
	}
}

func (s *story) answer(key string, t Transport, q int) (Outcome, time.Duration) {
	name := "probe"
	if q >= 0 {
		name = s.names[q]
	}
	for _, who := range []string{key + "/" + t.String() + "#" + name, key + "#" + name, key + "/" + t.String(), key} {
		if a, ok := s.net[who]; ok {
			return a.outcome, a.delay
		}
	}
	return Good, time.Millisecond
}

func (s *story) say(format string, args ...any) {
	fmt.Fprintf(&s.out, "%8s %s\n", s.now, fmt.Sprintf(format, args...))
}

func (s *story) step(q int, step Step) {
	if s.quiet {
		return
	}
	name := fmt.Sprintf("%s(%d)", s.names[q], q)
	if a := step.Send; a != nil {
		s.say("%s: ask %s %s (%s)", name, a.Key, a.Transport, a.Reason)
	}
	if step.Reply != None {
		word := [...]string{"", "answer", "late answer", "no answer: silence", "no answer: network", "no answer: nobody to ask"}[step.Reply]
		if step.From != nil {
			word += fmt.Sprintf(" of %s %s: %s", step.From.Key, step.From.Transport, step.From.outcome)
		}
		s.say("%s: %s", name, word)
	}
}

func (s *story) event(e Event) {
	if e.Ejected {
		s.say("EJECTED %s %s (%s) for %s", e.Key, e.Transport, e.Cause, e.For)
	} else {
		s.say("BACK %s %s", e.Key, e.Transport)
	}
}

func (s *story) health() {
	for _, h := range s.view.Health() {
		fmt.Fprintf(&s.out, "%s asked %d", h.Key, h.Asked)
		for _, l := range h.Links {
			state := "well"
			if l.Ejected {
				state = "ejected"
			}
			fmt.Fprintf(&s.out, "; %s %s, %d failed, %d in flight", l.Transport, state, l.Failed, l.InFlight)
		}
		s.out.WriteByte('\n')
	}
	fmt.Fprintf(&s.out, "questions %d, asked %d, probes %d, budget %.1f, denied %d\n", s.asked, s.sent, s.probes, s.core.budget.tokens, s.core.denied)
}

func outcomeOf(t *testing.T, word string) Outcome {
	for o := open; o <= gone; o++ {
		if o.String() == word {
			return o
		}
	}
	t.Fatalf("unknown outcome %q", word)
	return 0
}

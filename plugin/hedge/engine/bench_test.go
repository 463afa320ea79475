package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkQuestion is what the engine adds to a question that is answered by the
// upstream that was asked first.
func BenchmarkQuestion(b *testing.B) {
	for _, n := range []int{1, 2, 4, 16} {
		b.Run(fmt.Sprintf("upstreams=%d", n), func(b *testing.B) {
			c := New(rand.IntN)
			v := c.View(Options{Deadline: time.Second, Life: 2 * time.Second})
			var list []Upstream
			for i := range n {
				list = append(list, Upstream{Key: fmt.Sprint(i)})
			}
			v.Replace(list)
			now := Time(0)
			b.ReportAllocs()
			for b.Loop() {
				now += time.Millisecond
				q, s := v.Ask(now)
				if s = q.Heard(s.Send, Good, now+500*time.Microsecond); s.Reply != Answer {
					b.Fatal(s)
				}
			}
		})
	}
}

// BenchmarkHedged is a question that is hedged and won by the second upstream.
func BenchmarkHedged(b *testing.B) {
	c := New(rand.IntN)
	v := c.View(Options{Deadline: time.Second, Life: 2 * time.Second})
	v.Replace([]Upstream{{Key: "a"}, {Key: "b"}})
	now := Time(0)
	b.ReportAllocs()
	for b.Loop() {
		c.budget.tokens = budgetHolds
		now += time.Second
		q, s := v.Ask(now)
		first := s.Send
		s = q.Tick(s.Wait)
		if s.Send == nil {
			b.Fatal(s)
		}
		q.Heard(s.Send, Good, now+s.Wait)
		q.Heard(first, Good, now+s.Wait)
	}
}

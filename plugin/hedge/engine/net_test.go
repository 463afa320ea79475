package engine

import (
	"container/heap"
	"time"
)

// network answers what a view asks: the engine's world in tests. It is as
// deterministic as the engine.
type network struct {
	core *Core
	view *View
	now  Time
	// behave says what comes of an attempt, and when; a negative delay is never.
	behave func(key string, t Transport, question int) (Outcome, time.Duration)
	todo   moments
	n      int // orders what is due at once

	asked, sent, probes int
	onStep              func(q int, s Step)
	onEvent             func(Event)
}

type moment struct {
	at Time
	n  int
	do func()
}

type moments []moment

func (m moments) Len() int { return len(m) }
func (m moments) Less(i, j int) bool {
	return m[i].at < m[j].at || m[i].at == m[j].at && m[i].n < m[j].n
}
func (m moments) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *moments) Push(x any)   { *m = append(*m, x.(moment)) }
func (m *moments) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

func (w *network) at(t Time, do func()) {
	w.n++
	heap.Push(&w.todo, moment{t, w.n, do})
}

// ask asks question number q.
func (w *network) ask() (q int) {
	q = w.asked
	w.asked++
	question, s := w.view.Ask(w.now)
	var step func(Step)
	latest := 0
	step = func(s Step) {
		if w.onStep != nil {
			w.onStep(q, s)
		}
		w.events()
		if s.Attend {
			w.probe()
		}
		if a := s.Send; a != nil {
			w.sent++
			if o, delay := w.behave(a.Key, a.Transport, q); delay >= 0 {
				w.at(w.now+delay, func() { step(question.Heard(a, o, w.now)) })
			}
		}
		latest++
		if mine := latest; s.Wait != 0 {
			w.at(max(s.Wait, w.now), func() {
				if mine == latest {
					step(question.Tick(w.now))
				}
			})
		}
	}
	step(s)
	return q
}

func (w *network) events() {
	for _, e := range w.core.Events() {
		if w.onEvent != nil {
			w.onEvent(e)
		}
	}
}

// probe sends what probes are due.
func (w *network) probe() {
	due, _ := w.view.Probes(w.now)
	for _, p := range due {
		w.probes++
		o, delay := w.behave(p.Key, p.Transport, -1)
		if delay < 0 || delay > p.Within {
			o, delay = Failed, p.Within
		}
		w.at(w.now+delay, func() { w.view.Probed(p, o, w.now); w.events() })
	}
}

// run lets time pass, looking for probes every 50 ms.
func (w *network) run(until Time) {
	for w.now < until {
		next := min(until, w.now.Truncate(50*time.Millisecond)+50*time.Millisecond)
		for len(w.todo) > 0 && w.todo[0].at <= next {
			m := heap.Pop(&w.todo).(moment)
			w.now = max(w.now, m.at)
			m.do()
		}
		w.now = next
		w.probe()
	}
}

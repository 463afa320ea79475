package engine

import "math"

// pick is the link that a question goes to first: of two random ones that are
// well, in the lowest tier that has any, the one with the lower expected wait.
func (v *View) pick(now Time) *link {
	if l := v.pickOf(now, member.prefer, nil); l != nil {
		return l
	}
	// Over the other transport it may work: health is per transport.
	if l := v.pickOf(now, member.other, nil); l != nil {
		return l
	}
	return v.inTurn(nil)
}

// pickOf picks among the links of one kind that are well.
func (v *View) pickOf(now Time, kind func(member, Transport) *link, q *Question) *link {
	tier, n := math.MaxInt, 0
	fits := func(m member) *link {
		l := kind(m, v.options.Prefer)
		if !l.well() || m.loops || (q != nil && q.passed(l)) {
			return nil
		}
		return l
	}
	for _, m := range v.members {
		if fits(m) == nil || m.tier > tier {
			continue
		}
		if m.tier < tier {
			tier, n = m.tier, 0
		}
		n++
	}
	if n == 0 {
		return nil
	}
	// Two different ones of the n, counted in order.
	first, second := v.core.chance(n), -1
	if n > 1 {
		if second = v.core.chance(n - 1); second >= first {
			second++
		}
	}
	var a, b *link
	i := 0
	for _, m := range v.members {
		l := fits(m)
		if l == nil || m.tier != tier {
			continue
		}
		switch i {
		case first:
			a = l
		case second:
			b = l
		}
		i++
	}
	// Only where it is faster by a third: an average is not exact, and of those that
	// are as good each is to be asked often enough that it is known how it is.
	if b != nil && 3*b.wait(now) < 2*a.wait(now) {
		return b
	}
	return a
}

// inTurn is the next of the ejected: at least one upstream is always asked.
func (v *View) inTurn(q *Question) *link {
	for range v.members {
		v.core.turn++
		m := v.members[v.core.turn%len(v.members)]
		if l := m.prefer(v.options.Prefer); !m.loops && (q == nil || !q.passed(l)) {
			return l
		}
	}
	return nil
}

// another is whom to ask next, after those that were asked, or nil. again says
// that it may be one of them, over another connection or in another datagram.
func (q *Question) another(now Time, again bool) *link {
	if q.tcp { // the answer does not fit into a datagram
		return q.anotherStream(now)
	}
	if l := q.view.pickOf(now, member.prefer, q); l != nil {
		return l
	}
	if again {
		if l := q.view.pickOf(now, member.other, q); l != nil {
			return l
		}
	}
	if l := q.view.inTurn(q); l != nil {
		return l
	}
	if !again {
		return nil
	}
	return q.oldest()
}

// anotherStream is one whose answer can be long.
func (q *Question) anotherStream(now Time) *link {
	stream := func(m member, _ Transport) *link { return m.prefer(TCP) }
	return q.view.pickOf(now, stream, q)
}

// oldest is the link that was asked longest ago, if it was asked once: a
// datagram may just have been lost.
func (q *Question) oldest() *link {
	for i := range q.sent {
		a := &q.attempts[i]
		times := 0
		for j := range q.sent {
			if q.attempts[j].link == a.link {
				times++
			}
		}
		if times == 1 && !a.link.server.loops && a.outcome != ServFail && a.outcome != Refused {
			return a.link
		}
	}
	return nil
}

// passed says whether a follow-up had better not go to l: it was asked, or it
// answered over another transport in a way that no transport changes.
func (q *Question) passed(l *link) bool {
	for i := range q.sent {
		a := &q.attempts[i]
		if a.link == l {
			return true
		}
		if a.link.server == l.server && (a.outcome == ServFail || a.outcome == Refused) {
			return true
		}
	}
	return false
}

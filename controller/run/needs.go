package run

import (
	"slices"
	"time"
)

// Needs says what the caller is to look at for the next Step.
func (r Run) Needs(now time.Time) Needs {
	all := sortedKeys(r.Peers)
	switch r.Phase {
	case Planned, Reading:
		return Needs{Facts: true, AllStats: true}
	case Asking:
		return Needs{Facts: true, Seen: true, AllStats: true}
	case Out, Noticed, Held:
		n := Needs{Facts: true, AllStats: true, Monitors: r.out()}
		if r.out() && !r.Spec.OfUpstream() {
			n.Parts = r.listening(all)
		}
		return n
	case Back:
		if r.Spec.OfUpstream() {
			return Needs{Facts: true}
		}
		return Needs{Facts: true, Parts: r.listening(all)}
	case Recording:
		n := Needs{Facts: true}
		if !now.Before(r.tailEnds()) {
			n.Samples = true
			n.Parts = slices.DeleteFunc(r.listening(all), func(name string) bool { return r.Peers[name].Part != nil })
		}
		return n
	case Done:
		due := !r.Amended && !now.Before(r.returnsAt())
		return Needs{Facts: due, Seen: due}
	}
	return Needs{}
}

func (r Run) listening(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !r.Peers[name].Listening })
}

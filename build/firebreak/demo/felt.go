package demo

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"firebreakdns.io/firebreak/build/firebreak/demo/resolvers"
	"firebreakdns.io/firebreak/controller/run"
)

// felt is what a client went through during an outage, by its own log alone.
type felt struct {
	Verdict run.Verdict
	Waited  time.Duration // from its first query to the dead server to its first answer by another
	Lost    int           // lookups that nobody answered
	Slow    int           // lookups that took longer than a person forgives
	Lookups int           // that touched the outage
	Asked   int           // queries to the dead server
	Back    bool          // it asks the dead server again after the end
	By      netip.AddrPort
}

// follow is how long after the end an answer still counts as a failover: the
// same as for the controller's verdicts.
const follow = 5 * time.Second

// slow is a lookup that somebody notices.
const slow = 900 * time.Millisecond

// recall reads a client's log for the outage of one server.
func recall(log []resolvers.Result, dead netip.AddrPort, from, until time.Time) felt {
	var f felt
	var first time.Time
	everAsked := false
	for _, r := range log {
		during := r.Ended.After(from) && r.Began.Before(until)
		if during {
			f.Lookups++
			switch {
			case !r.Answered():
				f.Lost++
			case r.Ended.Sub(r.Began) > slow:
				f.Slow++
			}
		}
		for _, s := range r.Sent {
			// What the dead server answered it was not dead for: around the start
			// and the end of the outage the clocks cannot say.
			toDead := s.To == dead && !(r.Answered() && r.By == dead)
			everAsked = everAsked || s.To == dead
			switch {
			case toDead && s.At.After(from) && s.At.Before(until):
				f.Asked++
				if first.IsZero() {
					first = s.At
				}
			case s.At.After(until):
				f.Back = f.Back || s.To == dead
			}
		}
		if f.Verdict == "" && r.Answered() && r.By != dead && !first.IsZero() && r.Answer.After(first) && r.Answer.Before(until.Add(follow)) {
			f.Verdict, f.Waited, f.By = run.Followed, r.Answer.Sub(first), r.By
		}
	}
	switch {
	case f.Verdict != "":
	case f.Asked >= 3:
		f.Verdict = run.Stuck
	case !everAsked:
		f.Verdict = run.Elsewhere
	default:
		f.Verdict = run.Quiet
	}
	return f
}

// words are what the client would say.
func (f felt) words(name func(netip.AddrPort) string) string {
	switch f.Verdict {
	case run.Followed:
		text := fmt.Sprintf("waited %s, then %s answered", short(f.Waited), name(f.By))
		if f.Waited < slow {
			text = name(f.By) + " answered at once"
		}
		if f.Slow == 0 && f.Lost == 0 {
			return text + fmt.Sprintf("; none of %d lookups slow or lost", f.Lookups)
		}
		return text + fmt.Sprintf("; %d of %d lookups slow, %s lost", f.Slow, f.Lookups, noneOr(f.Lost))
	case run.Stuck:
		return fmt.Sprintf("asked %d times, nobody answered: all %d lookups lost", f.Asked, f.Lost)
	case run.Quiet:
		if f.Asked == 0 {
			return "asked nothing"
		}
		return fmt.Sprintf("asked %d times, too few to tell", f.Asked)
	case run.Elsewhere:
		return fmt.Sprintf("noticed nothing in %d lookups", f.Lookups)
	}
	return ""
}

func noneOr(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

func short(d time.Duration) string { return run.Seconds(d.Seconds()) }

// agreeWithin is how far the client's clock and the servers' may be apart on
// one machine: a busy one reads its packets late.
const agreeWithin = 1500 * time.Millisecond

// compare holds the report's word on a client to what it should be and to what
// the client itself saw. It returns what differs, "" where nothing does.
func compare(p *player, f felt, c *run.ClientReport) string {
	said := run.Verdict("")
	if c != nil {
		said = c.Verdict
	}
	switch {
	case said != p.want:
		return fmt.Sprintf("the report says %q, expected %q; the client itself saw %q", orNothing(said), p.want, f.Verdict)
	case f.Verdict != said:
		return fmt.Sprintf("the report says %q, the client itself saw %q", said, f.Verdict)
	}
	if c.FailoverSeconds != nil && f.Verdict == run.Followed {
		if off := math.Abs(*c.FailoverSeconds - f.Waited.Seconds()); off > agreeWithin.Seconds() {
			return fmt.Sprintf("the report says that it took %.1f s, the client itself waited %.1f s", *c.FailoverSeconds, f.Waited.Seconds())
		}
	}
	if f.Lost == 0 && c.Lost != nil && *c.Lost > 0 && !c.LostSampled {
		return fmt.Sprintf("the report says that %d of its questions were lost, the client itself lost none", *c.Lost)
	}
	return ""
}

func orNothing(v run.Verdict) string {
	if v == "" {
		return "nothing"
	}
	return string(v)
}

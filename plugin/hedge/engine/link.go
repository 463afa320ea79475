package engine

import (
	"math/bits"
	"time"
)

const (
	inARow    = 3  // failures that eject
	window    = 20 // answers that are looked back on
	halfOfThe = window / 2

	ejectFor  = time.Second // doubles
	ejectMost = 30 * time.Second
	// wellFor is how long a link that came back must have been well for its next
	// ejection to be short again.
	wellFor = time.Minute

	// silentFor is the least silence that counts as a failure when another
	// upstream has answered.
	silentFor = 50 * time.Millisecond
	// suspectAfter is how long a link may say nothing at all before it is probed.
	suspectAfter = time.Second

	// Whether one that is near still answers is known by asking it: one question
	// after half a second without any, which waits tryWithin longer at most. So an
	// upstream that dies is ejected within a second, also one that was slower for a
	// moment and is not asked since.
	tryAfter  = 500 * time.Millisecond
	tryWithin = 10 * time.Millisecond

	// expectLeast bounds how well a link can look that was not asked for long: a
	// dead one is to look bad again after a few questions.
	expectLeast = 100 * time.Microsecond

	hedgeLeast = 2 * time.Millisecond
	hedgeMost  = 200 * time.Millisecond
)

// Cause is why an upstream failed.
type Cause uint8

// The causes of failures.
const (
	Silent     Cause = iota // no answer, where another upstream had one or a probe had none
	Broken                  // the connection was refused or closed, or the answer cannot be read
	BadAnswers              // SERVFAIL or REFUSED, where another upstream answered the same question well
	causes
)

// String is the cause's name in metrics and messages.
func (c Cause) String() string { return [...]string{"silent", "broken", "answers"}[c] }

// link is an upstream over one transport, with a health of its own.
type link struct {
	server    *server
	transport Transport
	latency   latency
	inFlight  int
	overtaken int  // of those, how many another one was quicker for
	sent      Time // when it was last asked
	heard     Time // when it last answered anything; -1: never

	recent  uint32 // failures among the last window, newest lowest
	row     int    // failures in a row
	ejected bool
	cause   Cause         // of the last failure
	since   Time          // of the last change of ejected
	until   Time          // when to probe it, while it is ejected
	span    time.Duration // of the last ejection
	failed  uint64

	suspect bool // said nothing at all for too long: to be probed
	probing bool
}

func newLink(s *server, t Transport) *link { return &link{server: s, transport: t, heard: -1} }

// well says whether the link may be asked like any other.
func (l *link) well() bool { return l != nil && !l.ejected && l.overtaken < inARow }

// wait is how long an answer is expected to take, behind those in flight.
func (l *link) wait(now Time) time.Duration {
	if l.latency.total == 0 {
		// One that is not known yet is tried, by one question at a time.
		return time.Duration(l.inFlight) * guess
	}
	if l.inFlight == 0 && now-l.sent > tryAfter && l.hedgeAfter() <= tryWithin {
		return 0
	}
	return max(l.latency.expected(now), expectLeast) * time.Duration(l.inFlight+1)
}

// hedgeAfter is how long to wait for this link before another is asked.
func (l *link) hedgeAfter() time.Duration {
	return min(max(l.latency.percentile(l.transport), hedgeLeast), hedgeMost)
}

// silentAfter is how long it may be silent where another answered.
func (l *link) silentAfter() time.Duration {
	return max(4*l.latency.percentile(l.transport), silentFor)
}

// note adds to the last answers.
func (l *link) note(failure uint32) {
	l.recent = (l.recent<<1 | failure) & (1<<window - 1)
}

// fail counts a failure, and ejects.
func (c *Core) fail(l *link, why Cause, now Time) {
	l.note(1)
	l.row++
	l.failed++
	l.cause = why
	if !l.ejected && (l.row >= inARow || bits.OnesCount32(l.recent) >= halfOfThe) {
		c.eject(l, now)
	}
}

func (c *Core) eject(l *link, now Time) {
	switch {
	case l.span == 0 || now-l.since > wellFor:
		l.span = ejectFor
	default:
		l.span = min(2*l.span, ejectMost)
	}
	l.ejected, l.suspect = true, false
	l.since, l.until = now, now+l.span
	l.row, l.recent = 0, 0
	c.tell(l)
}

// back makes a link one to ask again.
func (c *Core) back(l *link, now Time) {
	l.row, l.recent = 0, 0
	l.suspect = false
	if !l.ejected {
		return
	}
	l.ejected = false
	l.since = now
	c.tell(l)
}

func (c *Core) tell(l *link) {
	if c.servers[l.server.key] != l.server {
		return // nobody lists it any more
	}
	e := Event{Key: l.server.key, Transport: l.transport, Ejected: l.ejected, Cause: l.cause}
	if l.ejected {
		e.For = l.span
	}
	c.events = append(c.events, e)
}

// good counts a good answer to a question of this moment.
func (c *Core) good(l *link, sent, now Time) {
	if l.ejected {
		// Only what it was asked since says that it is well again: half of its
		// answers may have been good before.
		if sent > l.since {
			c.back(l, now)
		}
		return
	}
	l.note(0)
	l.row = 0
	l.suspect = false
}

// takeBack undoes a failure by silence: the answer came after all.
func (c *Core) takeBack(l *link, sent, now Time) {
	l.failed--
	if l.ejected {
		if l.cause == Silent && sent <= l.since {
			c.back(l, now)
		}
		return
	}
	l.recent &= l.recent - 1 // the newest failure
	l.note(0)
	l.row = 0
	l.suspect = false
}

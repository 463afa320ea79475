package engine

import "time"

const (
	// budgetHolds is the burst: enough to fail over at once when an upstream dies
	// that had many questions, on a node however quiet.
	budgetHolds = 20.0
	// budgetShare of the questions may be asked again.
	budgetShare = 0.1
	// budgetPerSecond is the least that it refills by, so that a node that asks
	// once a minute can fail over too.
	budgetPerSecond = 1.0

	// What each leaves to those that matter more. A hedge for a question that is
	// slow where its upstream answers others is a comfort; so are many of them on a
	// busy machine. After SERVFAIL the client fails if nobody else is asked, but a
	// domain that fails everywhere can be asked on purpose. Without an upstream that
	// is silent or broken nothing works at all.
	keepForFailures = 12.0
	keepForSilence  = 8.0
	keepForProbes   = 2.0
)

// budget bounds what is asked beyond one upstream per question. Over any time in
// which ten questions a second or more were asked, what was spent is at most
// budgetHolds and a tenth of the questions; with fewer, budgetHolds and one a
// second.
type budget struct {
	tokens float64
	last   Time
	// ahead is what questions have refilled more than budgetPerSecond would have:
	// the two do not add up.
	ahead float64
}

// pass refills by the time that has passed.
func (b *budget) pass(now Time) {
	if now <= b.last {
		return
	}
	b.ahead -= (now - b.last).Seconds() * budgetPerSecond
	b.last = now
	if b.ahead < 0 {
		b.tokens = min(b.tokens-b.ahead, budgetHolds)
		b.ahead = 0
	}
}

// earn refills by one question.
func (b *budget) earn(now Time) {
	b.pass(now)
	b.tokens = min(b.tokens+budgetShare, budgetHolds)
	b.ahead = min(b.ahead+budgetShare, (10*time.Second).Seconds()*budgetPerSecond)
}

// spend takes a token if more than keep would be left.
func (b *budget) spend(keep float64, now Time) bool {
	b.pass(now)
	if b.tokens < 1+keep {
		return false
	}
	b.tokens--
	return true
}

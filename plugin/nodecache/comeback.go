package nodecache

import (
	"sync/atomic"
	"time"
)

const (
	// tryEvery is how often upstreams are tried by one of the stale names, whichever
	// is asked for, while none of them answers: about so long is what is held stale
	// after they are back, however few names a node asks for.
	tryEvery = 500 * time.Millisecond
	// awayAfter is how long upstreams must have answered nothing for a failure to
	// be all of theirs, and not one domain's.
	awayAfter = time.Second
	// backAgain is when a refresh is tried again that failed while upstreams were
	// just coming back.
	backAgain = time.Second
)

// comeback knows of the outage of all upstreams of a server block, and that it is
// over. Times are those of Moment.Mono.
type comeback struct {
	good  atomic.Int64 // when they last answered well
	away  atomic.Bool  // they cannot be reached, and have answered nothing well for a while
	back  atomic.Int64 // when that was last over
	tried atomic.Int64 // when they were last tried meanwhile
}

// answered notes that upstreams answer.
func (b *comeback) answered(now int64) {
	b.good.Store(now)
	if b.away.Load() && b.away.CompareAndSwap(true, false) {
		b.back.Store(now)
	}
}

// lost notes that upstreams could not be reached. One domain whose servers are
// gone does not count where others were answered just before.
func (b *comeback) lost(now int64) {
	if now-b.good.Load() > int64(awayAfter) && b.away.CompareAndSwap(false, true) {
		b.tried.Store(now)
	}
}

// justBack marks a retryAt of a refresh that failed after upstreams had come back.
const justBack = 1 << 31

// retryAt is when a refresh that has just failed is tried again: after recheck, but
// soon while upstreams are just coming back, which not all of them do at once.
func (b *comeback) retryAt(recheck time.Duration, now int64) uint32 {
	if back := b.back.Load(); back != 0 && now-back < int64(recheck) {
		return secondsOf(now+int64(min(recheck, backAgain))) | justBack
	}
	return secondsOf(now + int64(recheck))
}

// due says whether a refresh that has failed may be tried again: it is time, or it
// failed in an outage that is over, or it is the one that finds out whether it is.
func (b *comeback) due(retryAt uint32, recheck time.Duration, now int64) bool {
	if retryAt&^justBack <= secondsOf(now) {
		return true
	}
	if back := b.back.Load(); back != 0 && retryAt <= secondsOf(back+int64(recheck)) {
		return true
	}
	if !b.away.Load() {
		return false
	}
	last := b.tried.Load()
	return now-last >= int64(tryEvery) && b.tried.CompareAndSwap(last, now)
}

package nodecache

import (
	"sync/atomic"
	"time"
)

// tryEvery is how often upstreams are tried by one of the stale names, whichever
// is asked for, while none of them answers: so long is what is held stale after
// they are back, however few names a node asks for.
const tryEvery = time.Second

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
	if now-b.good.Load() > int64(tryEvery) && b.away.CompareAndSwap(false, true) {
		b.tried.Store(now)
	}
}

// early says whether a refresh that has failed may be tried again before its
// time: it failed in an outage that is over, or it is the one that finds out
// whether it is. retryAt is when its time is, after being put off by recheck.
func (b *comeback) early(retryAt uint32, recheck time.Duration, now int64) bool {
	if back := b.back.Load(); back != 0 && retryAt <= secondsOf(back+int64(recheck)) {
		return true
	}
	if !b.away.Load() {
		return false
	}
	last := b.tried.Load()
	return now-last >= int64(tryEvery) && b.tried.CompareAndSwap(last, now)
}

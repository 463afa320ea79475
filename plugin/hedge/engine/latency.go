package engine

import (
	"math"
	"time"
)

const (
	// Answers are counted in 72 buckets, each a fifth wider than the one before,
	// from 50 microseconds to eleven seconds.
	buckets     = 72
	firstBucket = 50 * time.Microsecond
	perOctave   = 4

	// remembered is how many answers the percentile is of, about: at this many,
	// all counts are halved, so that an upstream that changed is known anew after
	// a few hundred answers.
	remembered = 256

	// Until this many answers are known, the percentile is a guess.
	enough = 10
	// The guesses: within a cluster and a data centre a server that is well
	// answers sooner, and a hedge too soon costs little. TLS has a handshake first.
	guess    = 30 * time.Millisecond
	guessTLS = 100 * time.Millisecond
)

// latency is how long a link's answers took.
type latency struct {
	counts [buckets]uint16
	total  int
	p95    time.Duration
	mean   time.Duration // moving average, of the last eight or so
	last   Time          // of the last answer
}

var upper = func() (bound [buckets]time.Duration) {
	for i := range bound {
		bound[i] = time.Duration(float64(firstBucket) * math.Exp2(float64(i)/perOctave))
	}
	return bound
}()

func bucketOf(d time.Duration) int {
	if d <= firstBucket {
		return 0
	}
	b := int(math.Ceil(math.Log2(float64(d)/float64(firstBucket))*perOctave - 1e-9))
	return min(b, buckets-1)
}

// add counts an answer.
func (l *latency) add(took time.Duration, now Time) {
	took = max(took, 0)
	if l.total == 0 {
		l.mean = took
	} else {
		l.mean += (took - l.mean) / 8
	}
	l.last = now
	l.counts[bucketOf(took)]++
	l.total++
	if l.total >= remembered {
		l.total = 0
		for i := range l.counts {
			l.counts[i] /= 2
			l.total += int(l.counts[i])
		}
	}
	above := l.total / 20 // the slowest 5 % may be above
	for i := buckets - 1; i >= 0; i-- {
		if above -= int(l.counts[i]); above < 0 {
			l.p95 = upper[i]
			return
		}
	}
}

// expected is how long an answer takes, on average. It fades with the time that
// nothing was heard, so that an upstream that was slow once is tried again: one
// that was three times as slow within a second, a hundred times within a minute
// or two. So it is known of each whether it still answers, and what is far away
// costs few questions.
func (l *latency) expected(now Time) time.Duration {
	const fade = time.Second
	return time.Duration(float64(l.mean) * float64(fade) / float64(fade+max(now-l.last, 0)))
}

// percentile is the 95th, or a guess.
func (l *latency) percentile(t Transport) time.Duration {
	switch {
	case l.total >= enough:
		return l.p95
	case t == TLS:
		return guessTLS
	}
	return guess
}

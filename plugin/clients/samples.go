package clients

import (
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// answeredGap is the longest pause between two answers to one question that
// still stand in one sample. protocol.Sample says why this loses nothing.
const answeredGap = 5 * time.Second

// minThinned is how many samples a thinning has to leave: what a client that
// asks few different questions shows is not to hang on one of them.
const minThinned = 8

// sample is a protocol.Sample, in milliseconds since the recording began.
type sample struct {
	hash        uint64
	first, last uint32
	drilled     bool
}

// samples are those of one client.
type samples struct {
	list  []sample
	bits  int    // the low bits of a hash that must be 0
	until uint32 // nothing was added after; 0: nothing is missing
}

func keeps(hash uint64, bits int) bool { return hash&(1<<bits-1) == 0 }

// add notes that a question was drilled or answered, ms after the recording
// began. room is the most samples to keep. It says whether it stands in a sample
// that was there, and whether it stands anywhere.
//
// A drilled question's retries stand in its sample: the very packet again, however
// often, and any other copy within the window of the first. A copy after that is
// no retry of a resolver that is still at it, but the next lookup of somebody who
// asks the same over and over.
func (s *samples) add(hash uint64, drilled, resent bool, ms uint32, room int) (joined, kept bool) {
	if !keeps(hash, s.bits) {
		return false, false
	}
	gap := uint32(answeredGap / time.Millisecond)
	if drilled {
		gap = uint32(retryWindow / time.Millisecond)
	}
	for i := len(s.list) - 1; i >= 0; i-- {
		have := &s.list[i]
		if have.hash != hash || have.drilled != drilled || ms > have.last+gap {
			continue
		}
		if drilled && !resent && ms > have.first+gap {
			continue
		}
		have.last = max(have.last, ms)
		return true, true
	}
	if s.until != 0 {
		return false, false
	}
	if len(s.list) >= room && !s.thin(room) {
		s.until = max(ms, 1)
		return false, false
	}
	if !keeps(hash, s.bits) {
		return false, false
	}
	s.list = append(s.list, sample{hash: hash, drilled: drilled, first: ms, last: ms})
	return false, true
}

// held notes that a drilled question got its answer when the drill ended: its
// client was still waiting for it.
func (s *samples) held(hash uint64, ms uint32, room int) {
	for i := len(s.list) - 1; i >= 0; i-- {
		if have := &s.list[i]; have.hash == hash && have.drilled {
			have.last = max(have.last, ms)
			break
		}
	}
	s.add(hash, false, false, ms, room)
}

// thin keeps fewer questions, by their hashes, so that every server keeps the
// same ones. It says whether that made room.
func (s *samples) thin(room int) bool {
	for bits := s.bits + 1; bits < 32; bits++ {
		n := 0
		for i := range s.list {
			if keeps(s.list[i].hash, bits) {
				n++
			}
		}
		if n < min(minThinned, room/2) {
			return false
		}
		if n >= room {
			continue
		}
		left := s.list[:0]
		for _, have := range s.list {
			if keeps(have.hash, bits) {
				left = append(left, have)
			}
		}
		s.list, s.bits = left, bits
		return true
	}
	return false
}

// wire are the samples as the protocol has them.
func (s *samples) wire(startMs int64) []protocol.Sample {
	out := make([]protocol.Sample, 0, len(s.list))
	for _, have := range s.list {
		out = append(out, protocol.Sample{
			Hash:    have.hash,
			Drilled: have.drilled,
			FirstMs: startMs + int64(have.first),
			LastMs:  startMs + int64(have.last),
		})
	}
	return out
}

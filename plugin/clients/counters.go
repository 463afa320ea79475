package clients

import (
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/miekg/dns"
)

// latencyBuckets is the length of protocol.Stats.LatencyMs: the bounds, and one
// for all above. A test holds it to the protocol.
const latencyBuckets = 31

// latencyBounds are protocol.LatencyBoundsMs in nanoseconds.
var latencyBounds = func() (b [latencyBuckets - 1]int64) {
	for i, ms := range protocol.LatencyBoundsMs {
		b[i] = int64(ms * float64(time.Millisecond))
	}
	return b
}()

// counters are a shard's part of protocol.Stats; its lock guards them. They
// only grow.
type counters struct {
	queries, answers uint64
	retries          uint64
	lastAnswer       int64 // Unix ms
	latency          [latencyBuckets]uint64
	servfail         uint64
	refused          uint64
	nxdomain         uint64 // behind the latencies: what every answer writes fills the first line
	drilled          uint64
	retriesLost      uint64 // questions forgotten before their 6 s were over
}

func (c *counters) answer(rcode int, took int64, ms int64) {
	c.answers++
	switch rcode {
	case dns.RcodeServerFailure:
		c.servfail++
	case dns.RcodeRefused:
		c.refused++
	case dns.RcodeNameError:
		c.nxdomain++
	}
	if !isError(rcode) { // by errors nobody can tell that it is healthy
		c.lastAnswer = max(c.lastAnswer, ms)
	}
	// Most answers come from a cache and stop at the first bound.
	i := 0
	for i < len(latencyBounds) && took > latencyBounds[i] {
		i++
	}
	c.latency[i]++
}

func (c *counters) add(o *counters) {
	c.queries += o.queries
	c.retries += o.retries
	c.answers += o.answers
	c.servfail += o.servfail
	c.refused += o.refused
	c.nxdomain += o.nxdomain
	c.drilled += o.drilled
	c.retriesLost += o.retriesLost
	c.lastAnswer = max(c.lastAnswer, o.lastAnswer)
	for i := range c.latency {
		c.latency[i] += o.latency[i]
	}
}

// isError says whether an answer counts as one of a client's errors.
func isError(rcode int) bool {
	return rcode == dns.RcodeServerFailure || rcode == dns.RcodeRefused
}

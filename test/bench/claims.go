package main

import (
	"fmt"
	"math"
	"slices"
)

// claim is something that has to hold of ours: a figure and the most it may be.
type claim struct {
	text  string
	most  float64
	value func(r *result) float64 // NaN: not measured
}

// claims in the order of the page.
var claims = []claim{
	{"CPU per cached answer at the peak, to the Go floor", 1.15, cpuRatio("peak", goFloor, "peak")},
	{"CPU per cached answer at the peak, to the C floor", 1.4, cpuRatio("peak", cFloor, "peak")},
	{"CPU per cached answer at the peak, to the best of Debian's resolvers", 0.65, toBestPeer},
	{"CPU per cached answer at the peak, to NodeLocal's Corefile", 0.15, cpuRatio("peak", "nodelocal", "peak")},
	{"CPU per cached answer at 5,000 a second, to the Go floor", 1.1, cpuRatio("5k", goFloor, "5k")},
	{"CPU per cached answer at 5,000 a second, to the C floor", 1.5, cpuRatio("5k", cFloor, "5k")},
	{"CPU per cached answer at 5,000 a second, to NodeLocal's Corefile", 1.0 / 3, cpuRatio("5k", "nodelocal", "5k")},
	{"CPU per answer with two workers at 100,000 a second, to one worker", 1.5, cpuRatio("100k-2", "ours", "100k")},
	{"CPU per cached answer with clients and drill, to without", 1.1, cpuRatio("pairs", "ours-bare", "pairs")},
	{"CPU per miss, nodecache and hedge to CoreDNS's cache and forward", 1, slowRatio("miss")},
	{"CPU per answer over TCP, nodecache to CoreDNS's cache", 1, slowRatio("tcp")},
	{"CPU per answer over TLS, nodecache to CoreDNS's cache", 1, slowRatio("tls")},
	{"CPU per miss, all of ours to NodeLocal's Corefile", 1, cpuRatio("miss", "nodelocal", "miss")},
	{"CPU per answer over TCP, all of ours to NodeLocal's Corefile", 1, cpuRatio("tcp", "nodelocal", "tcp")},
	{"CPU per answer over TLS, all of ours to NodeLocal's Corefile", 1, cpuRatio("tls", "nodelocal", "tls")},
	{"memory per cached entry, to stock CoreDNS", 0.5, toStockMemory},
	{"seconds from exec to the first answer, with a snapshot", 1, func(r *result) float64 {
		if r.Cold == nil {
			return math.NaN()
		}
		return r.Cold.Seconds
	}},
	{"share of the first second's questions not answered after a start from the snapshot", 0.01, func(r *result) float64 {
		if r.Cold == nil {
			return math.NaN()
		}
		return 1 - r.Cold.Answered
	}},
}

// verdict on a claim.
type verdict string

const (
	holds      verdict = "holds"
	broken     verdict = "does not hold"
	unmeasured verdict = "not measured"
)

// claimed is a claim with its figure.
type claimed struct {
	Text    string  `json:"text"`
	Most    float64 `json:"most"`
	Value   float64 `json:"value"` // 0 if not measured
	Verdict verdict `json:"verdict"`
}

func judge(r *result) (all []claimed) {
	for _, c := range claims {
		j := claimed{Text: c.text, Most: c.most, Verdict: unmeasured}
		if v := c.value(r); !math.IsNaN(v) {
			j.Value, j.Verdict = v, holds
			if v > c.most {
				j.Verdict = broken
			}
		}
		all = append(all, j)
	}
	return all
}

// cpuRatio is ours to another's CPU time.
func cpuRatio(work, base, baseWork string) func(r *result) float64 {
	return func(r *result) float64 { return ratio(r.Runs, "ours", work, base, baseWork) }
}

// slowRatio is of what does the same work: both without metrics, telemetry and
// drills.
func slowRatio(work string) func(r *result) float64 {
	return func(r *result) float64 { return ratio(r.Runs, "ours-plain", work, "coredns", work) }
}

// toBestPeer is ours to the best resolver: dnsdist is none, it balances.
func toBestPeer(r *result) float64 {
	best := math.NaN()
	for _, s := range debian {
		if s.name == "dnsdist" {
			continue
		}
		if v := ratio(r.Runs, "ours", "peak", s.name, "peak"); !math.IsNaN(v) && !(v <= best) {
			best = v // the largest: to the cheapest of them
		}
	}
	return best
}

// toStockMemory compares what is live where both say it: what a collector has
// not given back yet says more about when it ran.
func toStockMemory(r *result) float64 {
	get := func(name string) float64 {
		i := slices.IndexFunc(r.Memory, func(m memory) bool { return m.Server == name })
		if i < 0 || r.Memory[i].Live <= 0 {
			return math.NaN()
		}
		return r.Memory[i].Live
	}
	return get("ours") / get("coredns")
}

func (c claimed) String() string {
	if c.Verdict == unmeasured {
		return fmt.Sprintf("%-13s %s (at most %.2f)", c.Verdict, c.Text, c.Most)
	}
	return fmt.Sprintf("%-13s %s: %.2f (at most %.2f)", c.Verdict, c.Text, c.Value, c.Most)
}

package wire_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// metric is the sum of a counter's or gauge's series whose labels hold all of
// with, each as name=value.
func metric(t testing.TB, name string, with ...string) (sum float64) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := ","
			for _, l := range m.GetLabel() {
				labels += l.GetName() + "=" + l.GetValue() + ","
			}
			matches := true
			for _, w := range with {
				matches = matches && strings.Contains(labels, ","+w+",")
			}
			if matches {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func answered(t testing.TB) int { return int(metric(t, "coredns_nodecache_wire_answers_total")) }

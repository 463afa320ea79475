// Package stats has the few figures that a benchmark reports: medians and
// percentiles of what was measured, never means, which one disturbed round moves.
package stats

import (
	"cmp"
	"math"
	"slices"
)

// Median of the values; NaN if there are none.
func Median(values []float64) float64 {
	s := sorted(values)
	n := len(s)
	switch {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// Percentile is the smallest value that this share of all does not exceed: no
// value between two is made up. Not ok if there are none.
func Percentile[T cmp.Ordered](values []T, share float64) (zero T, ok bool) {
	if len(values) == 0 {
		return zero, false
	}
	s := slices.Clone(values)
	slices.Sort(s)
	i := int(math.Ceil(share*float64(len(s)))) - 1
	return s[max(0, min(i, len(s)-1))], true
}

func sorted(values []float64) []float64 {
	s := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	slices.Sort(s)
	return s
}

package stats

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		in   []float64
		want float64
	}{
		{[]float64{3, 1, 2}, 2},
		{[]float64{4, 1, 2, 3}, 2.5},
		{[]float64{7}, 7},
		{[]float64{math.NaN(), 5, math.NaN()}, 5},
	} {
		if got := Median(tc.in); got != tc.want {
			t.Errorf("Median(%v) = %v, want %v", tc.in, got, tc.want)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("Median of nothing = %v, want NaN", got)
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[99-i] = i + 1
	}
	for _, tc := range []struct {
		share float64
		want  int
	}{{0.5, 50}, {0.99, 99}, {1, 100}, {0, 1}} {
		if got, ok := Percentile(hundred, tc.share); !ok || got != tc.want {
			t.Errorf("Percentile %v = %v, %v, want %v", tc.share, got, ok, tc.want)
		}
	}
	if _, ok := Percentile([]int(nil), 0.5); ok {
		t.Error("Percentile of nothing is ok, want not")
	}
}

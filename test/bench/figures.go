package main

import (
	"math"
	"slices"

	"firebreakdns.io/firebreak/test/bench/stats"
)

// figures are the medians of what was measured, in the order of servers and works.
func figures(runs []measured) (all []figure) {
	for _, s := range servers {
		for _, w := range works {
			mine := pick(runs, s.name, w.name)
			if len(mine) == 0 {
				continue
			}
			all = append(all, figure{
				Server: s.name, Work: w.name, Rounds: len(mine),
				CPU:    median(mine, func(m measured) float64 { return m.CPU }),
				User:   median(mine, func(m measured) float64 { return m.User }),
				System: median(mine, func(m measured) float64 { return m.System }),
				Rate:   median(mine, func(m measured) float64 { return m.Rate }),
				Busy:   median(mine, func(m measured) float64 { return m.Busy }),
				P50:    median(mine, func(m measured) float64 { return m.P50 }),
				P99:    median(mine, func(m measured) float64 { return m.P99 }),
				Lost:   median(mine, func(m measured) float64 { return float64(m.Lost) / float64(m.Sent) }),
				RSS:    int64(median(mine, func(m measured) float64 { return float64(m.RSS) })),
				ToC:    known(ratio(runs, s.name, w.name, cFloor, w.name)),
				ToGo:   known(ratio(runs, s.name, w.name, goFloor, w.name)),
			})
		}
	}
	return all
}

func pick(runs []measured, server, work string) []measured {
	return slices.DeleteFunc(slices.Clone(runs), func(m measured) bool { return m.Server != server || m.Work != work })
}

func median(runs []measured, of func(measured) float64) float64 {
	values := make([]float64, 0, len(runs))
	for _, m := range runs {
		values = append(values, of(m))
	}
	return stats.Median(values)
}

// ratio of the CPU time of two: the median of the rounds' own ratios, because
// what disturbs a round disturbs both. NaN if no round has both.
func ratio(runs []measured, server, work, base, baseWork string) float64 {
	var ratios []float64
	for _, m := range pick(runs, server, work) {
		for _, b := range pick(runs, base, baseWork) {
			if b.Round == m.Round {
				ratios = append(ratios, m.CPU/b.CPU)
			}
		}
	}
	return stats.Median(ratios)
}

// known is a figure as JSON can hold it: 0 for none.
func known(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

func (r *result) figure(server, work string) (figure, bool) {
	i := slices.IndexFunc(r.Figures, func(f figure) bool { return f.Server == server && f.Work == work })
	if i < 0 {
		return figure{}, false
	}
	return r.Figures[i], true
}

package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// text is the result for a terminal.
func text(r *result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s; load %.2f at the start; %d rounds of %.1f s\n", r.Machine, r.Machine.Load, r.Rounds, r.Length)
	if w := caution(r); w != "" {
		fmt.Fprintf(&b, "%s\n", w)
	}
	for _, w := range works {
		rows := rowsOf(r, w.name)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s\n", w.name, w.title)
		t := tabwriter.NewWriter(&b, 2, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprint(t, "server\tus CPU\tuser\tsystem\tto C\tto Go\tanswers/s\tbusy\tp50 us\tp99 us\tlost\tRSS MB\t\n")
		for _, f := range rows {
			fmt.Fprintf(t, "%s\t%.2f\t%.1f\t%.1f\t%s\t%s\t%.0f\t%.0f %%\t%s\t%s\t%.2f %%\t%.0f\t\n", f.Server, f.CPU, f.User, f.System, times(f.ToC), times(f.ToGo),
				f.Rate, 100*f.Busy, latency(&w, f.P50), latency(&w, f.P99), 100*f.Lost, float64(f.RSS)/1e6)
		}
		_ = t.Flush() // into memory
	}
	if len(r.Memory) > 0 {
		fmt.Fprintf(&b, "\nmemory of %d entries\n", r.Memory[0].Entries)
		t := tabwriter.NewWriter(&b, 2, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprint(t, "server\tbytes an entry\tlive\theld\tRSS empty MB\tfull MB\t\n")
		for _, m := range r.Memory {
			fmt.Fprintf(t, "%s\t%.0f\t%s\t%d\t%.0f\t%.0f\t\n", m.Server, m.Bytes, orDash(m.Live, "%.0f"), m.Held, float64(m.Empty)/1e6, float64(m.Full)/1e6)
		}
		_ = t.Flush() // into memory
	}
	if c := r.Cold; c != nil {
		fmt.Fprintf(&b, "\ncold start: %d entries in %.1f MB, first answer after %.2f s (%.2f s with none); of the first second's questions %.2f %% answered with the upstream away, of all entries %.2f %%\n",
			c.Entries, float64(c.File)/1e6, c.Seconds, c.Empty, 100*c.Answered, 100*c.Held)
	}
	b.WriteString("\n")
	for _, c := range r.Claims {
		fmt.Fprintln(&b, c)
	}
	for _, f := range r.Failures {
		fmt.Fprintln(&b, "no figure:", f)
	}
	return b.String()
}

func rowsOf(r *result, work string) (rows []figure) {
	for _, f := range r.Figures {
		if f.Work == work {
			rows = append(rows, f)
		}
	}
	return rows
}

// caution says why figures are not to be quoted; "" if nothing speaks against it.
func caution(r *result) string {
	var why []string
	if r.Machine.Load > 0.5 {
		why = append(why, fmt.Sprintf("the machine was busy with something else (load %.1f)", r.Machine.Load))
	}
	if r.Machine.CPUs < 2 {
		why = append(why, "server and client shared one CPU")
	}
	if r.Rounds < 5 {
		why = append(why, fmt.Sprintf("%d of 5 rounds", r.Rounds))
	}
	if len(why) == 0 {
		return ""
	}
	return "A look, no figures to quote: " + strings.Join(why, "; ") + "."
}

// times is a ratio, as far as it is known.
func times(v float64) string { return orDash(v, "%.2f") }

func orDash(v float64, format string) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf(format, v)
}

// latency means something where questions are due at fixed times: elsewhere it
// is the window divided by the rate.
func latency(w *work, v float64) string {
	if w.rate == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f", v)
}

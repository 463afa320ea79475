package main

import (
	"fmt"
	"strings"

	"firebreakdns.io/firebreak/test/bench/chart"
)

// pictureName is the picture's, beside the page that shows it.
const pictureName = "performance.svg"

// page is the result as a page of the documentation has it.
func page(r *result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s, %d rounds of %.0f s each, on %s.\n", r.Machine, r.Rounds, r.Length, r.Begun.Format("2 January 2006"))
	if w := caution(r); w != "" {
		fmt.Fprintf(&b, "**%s**\n", w)
	}
	fmt.Fprintf(&b, "\n![What a cached answer costs in microseconds of CPU, server by server](%s)\n", pictureName)
	b.WriteString("\n| what has to hold | figure | at most | |\n|---|---|---|---|\n")
	for _, c := range r.Claims {
		fmt.Fprintf(&b, "| %s | %s | %.2f | %s |\n", c.Text, orDash(c.Value, "%.2f"), c.Most, c.Verdict)
	}
	for _, w := range works {
		rows := rowsOf(r, w.name)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n", capital(w.title))
		b.WriteString("| server | µs CPU per answer | in the program | in the kernel | to the C floor | to the Go floor | answers a second | server busy | P50 µs | P99 µs | lost | RSS MB |\n")
		b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		for _, f := range rows {
			fmt.Fprintf(&b, "| %s | %.2f | %.1f | %.1f | %s | %s | %.0f | %.0f %% | %s | %s | %.2f %% | %.0f |\n", r.title(f.Server), f.CPU, f.User, f.System,
				times(f.ToC), times(f.ToGo), f.Rate, 100*f.Busy, latency(&w, f.P50), latency(&w, f.P99), 100*f.Lost, float64(f.RSS)/1e6)
		}
	}
	if len(r.Memory) > 0 {
		fmt.Fprintf(&b, "\n### Memory of a cached entry\n\n%d names with one address each.\n\n| server | bytes an entry (RSS) | live | held | RSS empty MB | full MB |\n|---|---|---|---|---|---|\n", r.Memory[0].Entries)
		for _, m := range r.Memory {
			fmt.Fprintf(&b, "| %s | %.0f | %s | %d | %.0f | %.0f |\n", r.title(m.Server), m.Bytes, orDash(m.Live, "%.0f"), m.Held, float64(m.Empty)/1e6, float64(m.Full)/1e6)
		}
	}
	if c := r.Cold; c != nil {
		fmt.Fprintf(&b, "\n### Start from a snapshot\n\n%d entries, a file of %.1f MB, the upstream away: the first answer %.2f s after the process began (%.2f s with no snapshot). Of the questions of the first second %.2f %% were answered, of all entries %.2f %%.\n",
			c.Entries, float64(c.File)/1e6, c.Seconds, c.Empty, 100*c.Answered, 100*c.Held)
	}
	b.WriteString("\n### Versions\n\n| server | version |\n|---|---|\n")
	for _, s := range r.Servers {
		version := s.Version
		if s.Missing != "" {
			version = "not measured: " + s.Missing
		}
		fmt.Fprintf(&b, "| %s | %s |\n", s.Title, orWord(version, "–"))
	}
	if len(r.Failures) > 0 {
		b.WriteString("\nWithout a figure:\n\n")
		for _, f := range r.Failures {
			fmt.Fprintf(&b, "- %s\n", strings.ReplaceAll(f, "|", "/"))
		}
	}
	return b.String()
}

func (r *result) title(name string) string {
	for _, s := range r.Servers {
		if s.Name == name {
			if s.Kind == oursKind {
				return "**" + s.Title + "**"
			}
			return s.Title
		}
	}
	return name
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func orWord(s, word string) string {
	if s == "" {
		return word
	}
	return s
}

// picture shows what an answer costs, at the peak and at a node's rate.
func picture(r *result) []byte {
	inks := map[kind]chart.Ink{floorKind: chart.Floor, oursKind: chart.Ours, stockKind: chart.Stock, peerKind: chart.Other}
	var panels []chart.Panel
	for _, name := range []string{"peak", "5k"} {
		w := workNamed(name)
		p := chart.Panel{Title: "MICROSECONDS OF CPU PER CACHED ANSWER, " + strings.ToUpper(w.title)}
		for _, f := range rowsOf(r, name) {
			b := chart.Bar{Label: serverNamed(f.Server).title, Value: f.CPU, Ink: inks[serverNamed(f.Server).kind]}
			if w.rate == 0 {
				b.Note = fmt.Sprintf("%.0f,000 a second", f.Rate/1000)
			}
			p.Bars = append(p.Bars, b)
		}
		if len(p.Bars) > 0 {
			panels = append(panels, p)
		}
	}
	footnote := "One CPU for the server, another for the load; medians of " + fmt.Sprint(r.Rounds) + " interleaved rounds. " + r.Machine.String()
	return chart.Bars("What a cached answer costs", footnote, panels)
}

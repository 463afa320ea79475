package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"firebreakdns.io/firebreak/test/bench/chart"
	"firebreakdns.io/firebreak/test/bench/document"
)

// pictureName is the picture's, beside the page that shows it.
const pictureName = "avalanche.svg"

// report prints the table and writes the files.
func report(o *options, r *result, stdout io.Writer) error {
	fmt.Fprint(stdout, text(r))
	if err := os.MkdirAll(o.out, 0o755); err != nil { //nolint:gosec // to be read
		return err
	}
	svg := picture(r)
	err := errors.Join(
		r.writeJSON(filepath.Join(o.out, "avalanche.json")),
		os.WriteFile(filepath.Join(o.out, pictureName), svg, 0o644), //nolint:gosec // to be read
	)
	if err == nil && o.docs != "" {
		err = errors.Join(
			document.Write(o.docs, "avalanche", page(r)),
			os.WriteFile(filepath.Join(filepath.Dir(o.docs), pictureName), svg, 0o644), //nolint:gosec // to be read
		)
	}
	if err == nil {
		fmt.Fprintf(stdout, "\nWritten: %s and %s\n", filepath.Join(o.out, "avalanche.json"), filepath.Join(o.out, pictureName))
	}
	return err
}

// setting says what was tried.
func (r *result) setting() string {
	o := r.Options
	return fmt.Sprintf("%d servers of %d queries a second each, of which clients that ask them directly need %.0f %%; %d clients, a stub timeout of %s with %d attempts, applications that try %d more times. One server is black-holed for good, and in the Service for %s more.",
		serverCount, o.Capacity, 100*o.Use, o.Pods, o.Timeout, attempts, o.Again, o.During)
}

// caution says why figures are not to be quoted; "" if nothing speaks against it.
func (r *result) caution() string {
	if r.Machine.Load > 0.5 {
		return fmt.Sprintf("A look, no figures to quote: the machine was busy with something else (load %.1f).", r.Machine.Load)
	}
	return ""
}

// text is the result for a terminal.
func text(r *result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n%s\n", r.Machine, r.setting())
	if c := r.caution(); c != "" {
		fmt.Fprintln(&b, c)
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(&b, 2, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "way\tphase\tlookups\tP50 ms\tP99 ms\tworst ms\tfailed\tqueries/question\tsurvivors' load\tworst second\tdropped\t\n")
	for _, w := range r.Ways {
		for _, p := range w.Phases {
			fmt.Fprintf(t, "%s\t%s\t%d\t%.1f\t%.1f\t%.0f\t%.2f %%\t%.2f\t%.0f %%\t%.0f %%\t%.1f %%\t\n", w.Way, p.Name, p.Lookups, p.P50, p.P99, p.Worst, 100*p.Failed, p.Asked, 100*p.Load, 100*p.Peak, 100*p.Dropped)
		}
	}
	_ = t.Flush() // into memory
	b.WriteString("\n")
	for _, w := range r.Ways {
		fmt.Fprintf(&b, "%s: %d of %d clients had a lookup that failed; %s\n", w.Way, w.Hurt, w.Clients, w.recovery())
	}
	return b.String()
}

func (w *wayResult) recovery() string {
	switch w.Recovered {
	case 0:
		return "never shaken"
	case -1:
		return "not back to normal by the end"
	}
	return fmt.Sprintf("back to normal %.0f s after the failure", w.Recovered)
}

// page is the result as a page of the documentation has it.
func page(r *result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s, on %s. %s\n", r.Machine, r.Begun.Format("2 January 2006"), r.setting())
	if c := r.caution(); c != "" {
		fmt.Fprintf(&b, "**%s**\n", c)
	}
	fmt.Fprintf(&b, "\n![P99 of lookups over time while one of four servers is dead, by the way in which clients ask](%s)\n", pictureName)
	b.WriteString("\n| | | lookups | P50 ms | P99 ms | worst ms | failed | queries per question at the servers | survivors' load | in the worst second | dropped there |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, w := range r.Ways {
		title := w.Title
		for _, p := range w.Phases {
			fmt.Fprintf(&b, "| %s | %s | %d | %.1f | %.1f | %.0f | %.2f %% | %.2f | %.0f %% | %.0f %% | %.1f %% |\n", title, p.Name, p.Lookups, p.P50, p.P99, p.Worst, 100*p.Failed, p.Asked, 100*p.Load, 100*p.Peak, 100*p.Dropped)
			title = ""
		}
	}
	b.WriteString("\n| | clients with a failed lookup | |\n|---|---|---|\n")
	for _, w := range r.Ways {
		fmt.Fprintf(&b, "| %s | %d of %d | %s |\n", w.Title, w.Hurt, w.Clients, w.recovery())
	}
	return b.String()
}

// picture is the P99 of lookups by the second in which they began.
func picture(r *result) []byte {
	o := r.Options
	g := chart.Graph{
		Title:    "One of four DNS servers dies: P99 of lookups",
		XLabel:   "seconds; a lookup counts for the second in which it began",
		Footnote: "Lookups that failed count with the time until they did. " + r.Machine.String(),
		Ticks:    []chart.Tick{{Value: 1, Label: "1 ms"}, {Value: 10, Label: "10 ms"}, {Value: 100, Label: "100 ms"}, {Value: 1000, Label: "1 s"}, {Value: 10_000, Label: "10 s"}, {Value: 50_000, Label: ""}},
		Spans:    []chart.Span{{From: o.Before.Seconds(), To: (o.Before + o.During).Seconds(), Label: "dead, and still in the Service"}},
	}
	for _, w := range r.Ways {
		l := chart.Line{Label: w.Title, Ink: wayNamed(w.Way).ink, Dash: wayNamed(w.Way).dash}
		for _, s := range w.Seconds {
			l.Points = append(l.Points, chart.Point{X: float64(s.At), Y: s.P99})
		}
		g.Lines = append(g.Lines, l)
	}
	return chart.Lines(g)
}

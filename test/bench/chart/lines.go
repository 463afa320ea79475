package chart

import (
	"fmt"
	"math"
	"strings"
)

// Point of a line; a value that is not a number leaves a gap.
type Point struct{ X, Y float64 }

// Line is one series. Dash tells lines apart without colour.
type Line struct {
	Label  string
	Points []Point
	Ink    Ink
	Dash   string
}

// Span is a stretch of the x axis that is shaded.
type Span struct {
	From, To float64
	Label    string
}

// Graph is lines over time, on a logarithmic scale: what is interesting lies
// orders of magnitude apart.
type Graph struct {
	Title, Footnote, XLabel string
	Lines                   []Line
	Spans                   []Span
	Ticks                   []Tick // of the y axis, ascending; the first and the last are its ends
}

// Tick is a value of the y axis and how it is written.
type Tick struct {
	Value float64
	Label string
}

// Lines draws a graph.
func Lines(g Graph) []byte {
	const width, height, left, right, top, bottom = 960.0, 430.0, 84.0, 36.0, 92.0, 74.0
	c := newCanvas(width, height, g.Title, g.describe())
	c.text(36, 40, 19, "start", Text, 600, g.Title)
	lowX, highX := g.extent()
	low, high := math.Log(g.Ticks[0].Value), math.Log(g.Ticks[len(g.Ticks)-1].Value)
	x := func(v float64) float64 { return left + (width-left-right)*(v-lowX)/(highX-lowX) }
	y := func(v float64) float64 {
		v = math.Log(min(max(v, g.Ticks[0].Value), g.Ticks[len(g.Ticks)-1].Value))
		return height - bottom - (height-top-bottom)*(v-low)/(high-low)
	}
	for _, s := range g.Spans {
		c.rect(x(s.From), top, x(s.To)-x(s.From), height-top-bottom, Shade)
		c.text((x(s.From)+x(s.To))/2, top+16, 12, "middle", Marked, 600, s.Label)
	}
	for _, t := range g.Ticks {
		c.line(left, y(t.Value), width-right, y(t.Value), Rule)
		c.text(left-10, y(t.Value)+4, 12, "end", Muted, 400, t.Label)
	}
	step := niceStep((highX - lowX) / 8)
	for v := math.Ceil(lowX/step) * step; v <= highX; v += step {
		c.text(x(v), height-bottom+18, 12, "middle", Muted, 400, fmt.Sprintf("%g", v))
	}
	c.text(width-right, height-bottom+36, 12, "end", Muted, 400, g.XLabel)
	at := left
	for _, l := range g.Lines {
		dash := ""
		if l.Dash != "" {
			dash = ` stroke-dasharray="` + l.Dash + `"`
		}
		fmt.Fprintf(c, "  <path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2.2\" stroke-linejoin=\"round\"%s/>\n", path(l.Points, x, y), l.Ink, dash)
		fmt.Fprintf(c, "  <path d=\"M%.1f 66h26\" stroke=\"%s\" stroke-width=\"2.6\"%s/>\n", at, l.Ink, dash)
		c.text(at+34, 70, 13, "start", Text, 400, l.Label)
		at += 56 + 7*float64(len(l.Label))
	}
	c.text(36, height-16, 12, "start", Muted, 400, g.Footnote)
	return c.done()
}

func (g Graph) extent() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, l := range g.Lines {
		for _, p := range l.Points {
			low, high = min(low, p.X), max(high, p.X)
		}
	}
	if low >= high {
		return 0, 1
	}
	return low, high
}

func path(points []Point, x, y func(float64) float64) string {
	var b strings.Builder
	pen := "M"
	for _, p := range points {
		if math.IsNaN(p.Y) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", pen, x(p.X), y(p.Y))
		pen = "L"
	}
	return b.String()
}

// niceStep is the next of 1, 2, 5, 10, 20, 50…
func niceStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= least {
			return f * power
		}
	}
	return 10 * power
}

func (g Graph) describe() string {
	var parts []string
	for _, l := range g.Lines {
		most := Point{Y: math.Inf(-1)}
		for _, p := range l.Points {
			if p.Y > most.Y {
				most = p
			}
		}
		if len(l.Points) > 0 {
			parts = append(parts, fmt.Sprintf("%s: at most %.3g, at %g.", l.Label, most.Y, most.X))
		}
	}
	for _, s := range g.Spans {
		parts = append(parts, fmt.Sprintf("%s: from %g to %g.", s.Label, s.From, s.To))
	}
	return strings.Join(parts, " ")
}

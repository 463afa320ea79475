package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// wellFormed says whether a picture is XML that a browser reads.
func wellFormed(t *testing.T, svg []byte) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
}

func TestBars(t *testing.T) {
	svg := Bars("Cost & more", "here <now>", []Panel{
		{Title: "peak", Bars: []Bar{{Label: "one", Value: 2, Ink: Ours}, {Label: "two", Value: 4, Ink: Stock, Note: "100/s"}}},
		{Title: "nothing", Bars: []Bar{{Label: "none", Value: 0}}},
	})
	wellFormed(t, svg)
	for _, want := range []string{`width="250.0"`, `width="500.0"`, "Cost &amp; more", "peak: one 2.0, two 4.0."} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("No %q in\n%s", want, svg)
		}
	}
}

func TestLines(t *testing.T) {
	svg := Lines(Graph{
		Title: "P99", Ticks: []Tick{{1, "1 ms"}, {100, "100 ms"}, {10000, "10 s"}},
		Lines: []Line{{Label: "ours", Points: []Point{{0, 1}, {50, math.NaN()}, {100, 1e9}}, Ink: Ours, Dash: "4 4"}},
		Spans: []Span{{From: 20, To: 70, Label: "one server dead"}},
	})
	wellFormed(t, svg)
	// A gap begins a new stroke, and what is above the scale stands at its end.
	if !strings.Contains(string(svg), `d="M84.0 356.0M924.0 92.0"`) {
		t.Errorf("The line is not as its points are:\n%s", svg)
	}
	wellFormed(t, Lines(Graph{Ticks: []Tick{{1, ""}, {2, ""}}}))
}

func TestNiceStep(t *testing.T) {
	for least, want := range map[float64]float64{0.3: 0.5, 1: 1, 12: 20, 51: 100, 6: 10} {
		if got := niceStep(least); math.Abs(got-want) > 1e-9 {
			t.Errorf("NiceStep(%v) = %v, want %v", least, got, want)
		}
	}
}

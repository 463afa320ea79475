package chart

import (
	"fmt"
	"strings"
)

// Bar is one line of a panel.
type Bar struct {
	Label string
	Value float64
	Note  string // behind the value
	Ink   Ink
}

// Panel is a set of bars with one scale.
type Panel struct {
	Title string
	Bars  []Bar
}

// Bars draws panels of horizontal bars below each other.
func Bars(title, footnote string, panels []Panel) []byte {
	const width, left, right, row, head = 960.0, 270.0, 190.0, 24.0, 44.0
	height := 56.0 + 34
	for _, p := range panels {
		height += head + row*float64(len(p.Bars)) + 12
	}
	c := newCanvas(width, height, title, describe(panels))
	c.text(36, 40, 19, "start", Text, 600, title)
	y := 56.0
	for _, p := range panels {
		y += head
		c.text(36, y-14, 13, "start", Muted, 600, p.Title)
		most := 0.0
		for _, b := range p.Bars {
			most = max(most, b.Value)
		}
		for _, b := range p.Bars {
			w := 0.0
			if most > 0 {
				w = (width - left - right) * b.Value / most
			}
			weight := 400
			if b.Ink == Ours {
				weight = 700
			}
			c.text(left-12, y+16, 13.5, "end", Text, weight, b.Label)
			c.rect(left, y+4, w, row-8, b.Ink)
			c.text(left+w+8, y+16, 13, "start", Text, weight, strings.TrimSpace(fmt.Sprintf("%.1f", b.Value)))
			c.text(left+w+52, y+16, 12, "start", Muted, 400, b.Note)
			y += row
		}
		y += 12
	}
	c.text(36, y+16, 12, "start", Muted, 400, footnote)
	return c.done()
}

func describe(panels []Panel) string {
	var parts []string
	for _, p := range panels {
		var values []string
		for _, b := range p.Bars {
			values = append(values, fmt.Sprintf("%s %.1f", b.Label, b.Value))
		}
		parts = append(parts, p.Title+": "+strings.Join(values, ", ")+".")
	}
	return strings.Join(parts, " ")
}

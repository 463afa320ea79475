//go:build linux

package stubs

import (
	"fmt"
	"strings"
	"time"
)

// Measures of the picture, in pixels.
const (
	panelWidth  = 400
	panelHeight = 40
	panelGap    = 12
	labelWidth  = 170
	topMargin   = 64
	dot         = 4.4 // across
)

// Spans of a panel: from before the outage until the clients have recovered.
const (
	spanBefore = 3 * time.Second
	spanAfter  = 8 * time.Second
	spanTook   = 12 * time.Second // as slow as a lookup is shown; slower ones lie at the top
)

// picture is one panel for each client and mode: every lookup is a dot, to the
// right by when it began, up by how long it took.
func picture(matrices []*matrix) []byte {
	var b strings.Builder
	rows := len(matrices[0].cells)
	width := labelWidth + len(matrices)*(panelWidth+panelGap) + 30
	height := topMargin + rows*(panelHeight+panelGap) + 30
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" role="img" width="%d" height="%d" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="11">`+"\n", width, height, width, height)
	b.WriteString(`<title>How long each lookup took while one server was away, for each resolver</title>` + "\n")
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	fmt.Fprintf(&b, `<text x="8" y="18" font-size="14" font-weight="600" fill="#111">Every lookup while ns1 was away</text>`+"\n")
	fmt.Fprintf(&b, `<text x="8" y="34" fill="#555">right: when it began; up: how long it took, 0 to %d s (slower: at the top); <tspan fill="#1a7f37">answered</tspan>, <tspan fill="#cf222e">failed</tspan>; shaded: the outage</text>`+"\n", int(spanTook.Seconds()))
	for i, m := range matrices {
		x := float64(labelWidth + i*(panelWidth+panelGap))
		fmt.Fprintf(&b, `<text x="%.0f" y="%d" font-weight="600" fill="#111">%s, %d s</text>`+"\n", x, topMargin-8, m.mode, m.seconds)
		for j, c := range m.cells {
			y := float64(topMargin + j*(panelHeight+panelGap))
			if i == 0 {
				fmt.Fprintf(&b, `<text x="%d" y="%.0f" text-anchor="end" fill="#111">%s</text>`+"\n", labelWidth-10, y+panelHeight/2+4, c.Name)
			}
			m.panel(&b, c, x, y)
		}
		bottom := topMargin + rows*(panelHeight+panelGap)
		for s := 0; s <= m.seconds; s += 5 {
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%d s</text>`+"\n", x+m.across(time.Duration(s)*time.Second), bottom+4, s)
		}
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// across is how far right a time since the outage began lies.
func (m *matrix) across(since time.Duration) float64 {
	span := spanBefore + time.Duration(m.seconds)*time.Second + spanAfter
	return panelWidth * float64(spanBefore+since) / float64(span)
}

func (m *matrix) panel(b *strings.Builder, c *cell, x, y float64) {
	outage := time.Duration(m.seconds) * time.Second
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%d" height="%d" fill="#f6f8fa"/>`, x, y, panelWidth, panelHeight)
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="#fff1e5"/>`+"\n", x+m.across(0), y, m.across(outage)-m.across(0), panelHeight)
	for _, color := range []string{"#1a7f37", "#cf222e"} {
		// A line of no length with round ends is a dot, in a quarter of a circle's bytes.
		var dots strings.Builder
		for _, l := range c.lookups {
			since := l.Start.Sub(m.outage.start)
			if l.ok() != (color == "#1a7f37") || since < -spanBefore || since > outage+spanAfter {
				continue
			}
			up := (panelHeight - dot) * float64(min(l.took(), spanTook)) / float64(spanTook)
			fmt.Fprintf(&dots, "M%.1f %.1fh0", x+m.across(since), y+panelHeight-dot/2-up)
		}
		if dots.Len() > 0 {
			fmt.Fprintf(b, `<path d="%s" stroke="%s" stroke-opacity="0.6" stroke-width="%.1f" stroke-linecap="round"/>`+"\n", &dots, color, dot)
		}
	}
}

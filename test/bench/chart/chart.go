// Package chart draws the pictures of the measurements: self-contained SVG in
// the look of the documentation's, readable without colour, with a title and a
// description for who does not see it.
package chart

import (
	"fmt"
	"html"
	"strings"
)

// Ink is a colour by what it stands for.
type Ink string

// The colours of the documentation.
const (
	Text   Ink = "#26221e"
	Muted  Ink = "#6b6660"
	Rule   Ink = "#d9d4cc"
	Paper  Ink = "#fbfaf8"
	Ours   Ink = "#15803d"
	Stock  Ink = "#c2410c"
	Other  Ink = "#8b8378"
	Floor  Ink = "#c9c2b8"
	Shade  Ink = "#f3e3d7"
	Third  Ink = "#1d4ed8"
	Marked Ink = "#7c2d12"
)

// canvas is an SVG that grows.
type canvas struct {
	strings.Builder
}

func newCanvas(width, height float64, title, description string) *canvas {
	c := &canvas{}
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]g" width="%[1]g" height="%[2]g" role="img" aria-labelledby="t d" font-family="system-ui, -apple-system, 'Segoe UI', sans-serif">`+"\n", width, height)
	fmt.Fprintf(c, "  <title id=\"t\">%s</title>\n  <desc id=\"d\">%s</desc>\n", html.EscapeString(title), html.EscapeString(description))
	fmt.Fprintf(c, "  <rect width=\"%g\" height=\"%g\" rx=\"14\" fill=\"%s\"/>\n", width, height, Paper)
	return c
}

func (c *canvas) text(x, y, size float64, anchor string, ink Ink, weight int, s string) {
	fmt.Fprintf(c, "  <text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" text-anchor=\"%s\" fill=\"%s\" font-weight=\"%d\">%s</text>\n", x, y, size, anchor, ink, weight, html.EscapeString(s))
}

func (c *canvas) rect(x, y, w, h float64, ink Ink) {
	fmt.Fprintf(c, "  <rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" fill=\"%s\"/>\n", x, y, max(w, 0), max(h, 0), ink)
}

func (c *canvas) line(x1, y1, x2, y2 float64, ink Ink) {
	fmt.Fprintf(c, "  <path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, ink)
}

func (c *canvas) done() []byte {
	c.WriteString("</svg>\n")
	return []byte(c.String())
}

package view

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// paper is text under construction: plain, or with a terminal's colors.
type paper struct {
	strings.Builder
	color bool
}

// escapes are the SGR codes of the tones: the terminal's own sixteen colors,
// which its owner has made readable.
func escape(t Tone) string {
	switch t {
	case Good:
		return "\x1b[32m"
	case Bad:
		return "\x1b[31m"
	case Warn:
		return "\x1b[33m"
	case Dim:
		return "\x1b[2m"
	case Strong:
		return "\x1b[1m"
	}
	return ""
}

// paint is the text in its tone, cleaned.
func (p *paper) paint(v Value) string {
	text := clean(v.Text)
	if code := escape(v.Tone); p.color && code != "" && text != "" {
		return code + text + "\x1b[0m"
	}
	return text
}

// badge is an outcome that cannot be overlooked.
func (p *paper) badge(v Value) string {
	text := strings.ToUpper(clean(v.Text))
	if p.color {
		return escape(v.Tone) + "\x1b[1;7m " + text + " \x1b[0m"
	}
	return text
}

func (p *paper) line(format string, args ...any) {
	fmt.Fprintf(p, format, args...)
	p.WriteByte('\n')
}

func (p *paper) head(text string) {
	p.WriteByte('\n')
	p.line("%s", p.paint(toned(text, Strong)))
}

// table in columns two spaces apart.
func (p *paper) table(t Table, indent string) {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = utf8.RuneCountInString(c.Head)
	}
	for _, row := range t.Rows {
		for i, v := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(clean(v.Text)))
		}
	}
	write := func(row []Value) {
		var line strings.Builder
		line.WriteString(indent)
		for i, v := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(clean(v.Text)))
			if t.Columns[i].Right {
				line.WriteString(pad + p.paint(v))
			} else {
				line.WriteString(p.paint(v) + pad)
			}
			line.WriteString("  ")
		}
		p.line("%s", strings.TrimRight(line.String(), " "))
	}
	heads := make([]Value, len(t.Columns))
	for i, c := range t.Columns {
		heads[i] = toned(c.Head, Dim)
	}
	write(heads)
	for _, row := range t.Rows {
		write(row)
	}
}

// pairs one a line: label, value, and a note where there is one.
func (p *paper) pairs(pairs []Pair) {
	labels, values := 0, 0
	for _, x := range pairs {
		labels = max(labels, utf8.RuneCountInString(clean(x.Label)))
		if x.Note != "" {
			values = max(values, utf8.RuneCountInString(clean(x.Value.Text)))
		}
	}
	for _, x := range pairs {
		label, value := clean(x.Label), clean(x.Value.Text)
		p.WriteString("  " + label + strings.Repeat(" ", labels-utf8.RuneCountInString(label)) + "  " + p.paint(x.Value))
		if x.Note != "" {
			p.WriteString(strings.Repeat(" ", max(values-utf8.RuneCountInString(value), 0)) + "  " + p.paint(toned(x.Note, Dim)))
		}
		p.WriteByte('\n')
	}
}

// wrap breaks words at width, with an indent for every line but the first.
func wrap(text string, width int, indent string) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > width:
			b.WriteString("\n" + indent)
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

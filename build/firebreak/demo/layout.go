package demo

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of the width that the story is laid out for.
const (
	widest   = 96 // longer lines are hard to read
	narrowed = 28 // columns that text needs beside a label: else it goes below it
)

// width of the story.
func (d *demo) width() int {
	if w := d.options.Width; w > 0 && w < widest {
		return w
	}
	return widest
}

// lines are the words of a text in lines of that many columns at most. A word
// that is longer has one to itself.
func lines(text string, columns int) []string {
	var out []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns:
			out = append(out, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(out, line)
}

// tell says a paragraph.
func (d *demo) tell(format string, args ...any) {
	for _, line := range lines(fmt.Sprintf(format, args...), d.width()) {
		d.say("%s", line)
	}
}

// entry says a text beside its label, or below it where there is no room. shown
// is the label as it is printed, in columns of that width.
func (d *demo) entry(shown string, columns int, text string, paint func(string) string) {
	room, indent := d.width()-columns, strings.Repeat(" ", columns)
	if text != "" && (room < narrowed || longestWord(text) > room) {
		d.say("%s", strings.TrimRight(shown, " "))
		shown, indent = "", "      "
		room = d.width() - len(indent)
	} else if text == "" {
		d.say("%s", strings.TrimRight(shown, " "))
		return
	}
	for i, line := range lines(text, room) {
		if i > 0 || shown == "" {
			d.say("%s%s", indent, paint(line))
		} else {
			d.say("%s%s", shown, paint(line))
		}
	}
}

func longestWord(text string) int {
	longest := 0
	for _, word := range strings.Fields(text) {
		longest = max(longest, utf8.RuneCountInString(word))
	}
	return longest
}

// labelled is an entry whose label stands indented in a column of its own.
func (d *demo) labelled(indent int, label string, columns int, text string, paint func(string) string) {
	pad := max(columns-utf8.RuneCountInString(label), 0)
	shown := strings.Repeat(" ", indent) + label + strings.Repeat(" ", pad) + "  "
	d.entry(shown, utf8.RuneCountInString(shown), text, paint)
}

func unpainted(text string) string { return text }

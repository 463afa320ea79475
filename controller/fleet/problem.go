package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is something wrong in a fleet file.
type Problem struct {
	Line    int    // 0: not known
	Field   string // as in servers[1].dns[0]; "" for the file as a whole
	Message string // what is wrong, and what to write instead
}

// Problems are all that was found wrong with a fleet file, by line.
type Problems struct {
	File string
	List []Problem
}

// Error lists them, one a line.
func (p *Problems) Error() string {
	var b strings.Builder
	for i, x := range p.List {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(x.In(p.File))
	}
	return b.String()
}

// In is the problem as a line, with the file and the place in it.
func (p Problem) In(file string) string {
	if p.Line > 0 {
		file += fmt.Sprintf(":%d", p.Line)
	}
	if p.Field != "" {
		file += ": " + p.Field
	}
	return file + ": " + p.Message
}

// nearest is the word that s was probably meant to be; "" where none is near.
func nearest(s string, words []string) string {
	best, at := "", 3 // more than two letters apart is another word
	for _, w := range slices.Sorted(slices.Values(words)) {
		d := distance(strings.ToLower(s), strings.ToLower(w))
		if d < at && d < max(len(w), len(s)) {
			best, at = w, d
		}
	}
	return best
}

// distance counts the letters to add, drop, change or swap between two words.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var two, one []int // rows before
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		two, one = one, row
		row = make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(one[j]+cost, one[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], two[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// DidYouMean says what s was probably meant to be, or all that it could be.
func DidYouMean(s string, words []string) string {
	if w := nearest(s, words); w != "" {
		return fmt.Sprintf("did you mean %q?", w)
	}
	if len(words) == 1 {
		return "there is only " + words[0]
	}
	return "there are " + strings.Join(slices.Sorted(slices.Values(words)), ", ")
}

package view

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"firebreakdns.io/firebreak/controller/run"
)

// unknown stands where a value is not known, or does not apply.
const unknown = "–"

func seconds(s float64) string { return run.Seconds(s) }

func maybeSeconds(s *float64) string { return maybe(s, seconds) }

// maybe says what is known.
func maybe(x *float64, say func(float64) string) string {
	if x == nil {
		return unknown
	}
	return say(*x)
}

func hundredths(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }

// share of a whole as a percentage. It never rounds up to all nor down to
// none: 999 of 1,000 followed is not 100 %, and one error is not 0 %.
func share(f float64) string {
	switch {
	case f <= 0:
		return "0 %"
	case f >= 1:
		return "100 %"
	}
	digits, unit := 1, 10.0
	if f < 0.01 {
		digits, unit = 2, 100
	}
	percent := math.Floor(f*100*unit+1e-9) / unit
	if percent == 0 {
		return "<0.01 %"
	}
	text := strconv.FormatFloat(percent, 'f', digits, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + " %"
}

func maybeShare(f *float64) string {
	if f == nil {
		return unknown
	}
	return share(*f)
}

// millis in words, three digits that count.
func millis(ms float64) string {
	digits := 2
	switch {
	case ms >= 100:
		digits = 0
	case ms >= 10:
		digits = 1
	}
	return strconv.FormatFloat(ms, 'f', digits, 64) + " ms"
}

// count with thousands apart.
func count[N ~int | ~int64 | ~uint64 | ~uint32](n N) string {
	s := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// estimate is a count that may come from a sample, or is not known.
func estimate(n *int, sampled bool) string {
	switch {
	case n == nil:
		return unknown
	case sampled:
		return "about " + count(*n)
	}
	return count(*n)
}

// some reports whether a count is known, and more than none.
func some(n *int) bool { return n != nil && *n > 0 }

// many is a count with its noun: 1 client, 2 clients.
func many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// moment is a point in time, to the second, with its zone.
func moment(t time.Time, in *time.Location) string {
	if t.IsZero() {
		return unknown
	}
	return t.In(in).Format("2006-01-02 15:04:05 MST")
}

func maybeMoment(t *time.Time, in *time.Location) string {
	if t == nil {
		return unknown
	}
	return moment(*t, in)
}

// ago is how long before now, as coarse as people say it.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	switch {
	case d < time.Second:
		return "now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// list joins names as people do: a, b and c. More than most are counted.
func list(names []string, most int) string {
	if len(names) > most+1 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return s
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// clean takes out what could move a terminal's cursor or change its colors:
// names come from hosts files, pods and reverse zones, which others write.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar:
			return '?'
		}
		return r
	}, s)
}

func cleaned(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = clean(s)
	}
	return out
}

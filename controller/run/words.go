package run

import "strconv"

// Seconds in words, as every message and every rendering has them: the nearer to
// nothing, the more digits count.
func Seconds(s float64) string {
	digits := 1
	switch {
	case s >= 0 && s < 0.005: // nothing that was measured took no time
		return "<0.01 s"
	case s >= 99.95:
		digits = 0
	case s < 0.995:
		digits = 2
	}
	return strconv.FormatFloat(s, 'f', digits, 64) + " s"
}

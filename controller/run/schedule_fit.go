package run

import (
	"fmt"
	"time"
)

// fitsFrom are the days from which it is looked whether a schedule can ever
// run: one in winter and one in summer, since clocks differ between the two.
var fitsFrom = []time.Time{
	time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC),
	time.Date(2026, time.July, 6, 0, 0, 0, 0, time.UTC),
}

// fitsMonths is how many months of a monthly schedule are looked at: its day
// moves over the first seven, so that all days of the week come by.
const fitsMonths = 48

// Span is the most that the part of a drill which touches anything can take,
// from its Reading until everything is back: for so long a window must be open.
func Span(seconds int, t Timings) time.Duration {
	return Spec{Seconds: seconds, Timings: t}.longest()
}

// Fits says whether the fleet's window (nil: there is none) ever lets the
// schedule's drill start and finish inside it. The schedule and the window are
// valid.
func (s Schedule) Fits(fleet string, w *Window, t Timings) bool {
	if w == nil {
		return true
	}
	span := Span(s.Spec("").Seconds, t)
	if s.Every == Monthly {
		for i := range fitsMonths {
			from := fitsFrom[0].AddDate(0, 0, 1-fitsFrom[0].Day()).AddDate(0, i, 0)
			at := s.hourOf(fleet, from.Year(), from.Month())
			if fitsWithin(at, at.Add(time.Hour), span, w, nil) {
				return true
			}
		}
		return false
	}
	own, err := s.window().parse()
	if err != nil {
		return false
	}
	for _, from := range fitsFrom {
		if fitsWithin(from, from.AddDate(0, 0, 8), span, w, &own) {
			return true
		}
	}
	return false
}

// fitsWithin looks at every minute of a span of time, as a schedule is tried.
func fitsWithin(from, until time.Time, span time.Duration, w *Window, own *clockWindow) bool {
	for at := from; at.Before(until); at = at.Add(time.Minute) {
		if own != nil {
			if _, _, open := own.at(at); !open {
				continue
			}
		}
		if w.Contains(at, span) {
			return true
		}
	}
	return false
}

// Fits says whether a drill of so many seconds can ever start and finish inside
// the window. The window is valid.
func (w Window) Fits(seconds int, t Timings) bool {
	for _, from := range fitsFrom {
		if fitsWithin(from, from.AddDate(0, 0, 8), Span(seconds, t), &w, nil) {
			return true
		}
	}
	return false
}

// RunsPast says how much longer a drill of the schedule takes than its own
// window is open, "" where it fits. That is no reason not to start it: the
// window says when it is tried.
func (s Schedule) RunsPast(t Timings) string {
	if s.Every != Weekly {
		return ""
	}
	own, err := s.window().parse()
	if err != nil {
		return ""
	}
	span := Span(s.Spec("").Seconds, t)
	if length := own.end - own.start; length < span {
		return fmt.Sprintf("the window is %.0f s long and a drill takes up to %.0f s with reading before and putting back after: it starts inside and ends after it",
			length.Seconds(), span.Seconds())
	}
	return ""
}

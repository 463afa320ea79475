package run

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Window is a weekly span of time in which a drill may start and must be able
// to finish, on the wall clock of a time zone.
//
// It is open whenever that clock shows a time inside it. So where clocks go
// forward over a part of it, that part does not come that day; where they go
// back over it, it comes twice.
type Window struct {
	Days      []string `json:"days,omitempty" yaml:"days"` // mon tue wed thu fri sat sun; none: every day
	StartTime string   `json:"startTime" yaml:"startTime"` // 15:04
	EndTime   string   `json:"endTime" yaml:"endTime"`     // 15:04; at or before StartTime: of the next day
	TimeZone  string   `json:"timeZone" yaml:"timeZone"`   // IANA name; UTC where empty
}

// weekdays by their names in a Window, from Sunday as time.Weekday counts.
var weekdays = [7]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// FieldError is a value that cannot be used: which field, and what to write instead.
type FieldError struct {
	Field   string // as it is written in JSON and YAML; days[1] for a list's second
	Message string
}

// Error says the field and the message.
func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// Validate says what is wrong with the window, as a *FieldError.
func (w Window) Validate() error {
	_, err := w.parse()
	return err
}

// Contains reports whether the window is open at now and stays open for the
// span after it, without a gap. Windows that touch count as one: two whole days
// in a row have no gap at midnight. A window that is not valid contains nothing.
func (w Window) Contains(now time.Time, span time.Duration) bool {
	p, err := w.parse()
	if err != nil {
		return false
	}
	end := now.Add(span)
	for t := now; ; {
		_, until, open := p.at(t)
		if !open || !until.Before(end) {
			return open
		}
		t = until
	}
}

// String is the window as people say it: "mon, tue 02:00 to 04:00 Europe/Berlin".
func (w Window) String() string {
	days := "every day"
	if len(w.Days) > 0 {
		days = strings.Join(w.Days, ", ")
	}
	end := w.EndTime
	if p, err := w.parse(); err == nil && p.end >= 24*time.Hour {
		end += " of the next day"
	}
	zone := w.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	return fmt.Sprintf("%s %s to %s %s", days, w.StartTime, end, zone)
}

// clockWindow is a Window that was understood.
type clockWindow struct {
	days       [7]bool       // on which it opens
	start, end time.Duration // since midnight on the wall clock; end may be past 24 h
	zone       *time.Location
}

func (w Window) parse() (clockWindow, error) {
	p := clockWindow{}
	for i, d := range w.Days {
		n := slices.Index(weekdays[:], d)
		if n < 0 {
			return p, &FieldError{fmt.Sprintf("days[%d]", i), fmt.Sprintf("%q is no day: write mon, tue, wed, thu, fri, sat or sun", d)}
		}
		if p.days[n] {
			return p, &FieldError{fmt.Sprintf("days[%d]", i), fmt.Sprintf("%q stands there twice", d)}
		}
		p.days[n] = true
	}
	if len(w.Days) == 0 {
		p.days = [7]bool{true, true, true, true, true, true, true}
	}
	var err error
	if p.start, err = timeOfDay(w.StartTime, "startTime"); err != nil {
		return p, err
	}
	if p.end, err = timeOfDay(w.EndTime, "endTime"); err != nil {
		return p, err
	}
	if p.end <= p.start {
		p.end += 24 * time.Hour
	}
	p.zone, err = loadZone(w.TimeZone)
	return p, err
}

func timeOfDay(s, field string) (time.Duration, error) {
	t, err := time.Parse("15:04", s)
	if err != nil || len(s) != len("15:04") {
		return 0, &FieldError{field, fmt.Sprintf("%q is no time of day: write hours and minutes as in 02:30", s)}
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
}

// loadZone refuses "Local": what it means depends on the machine that reads it.
func loadZone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, &FieldError{"timeZone", fmt.Sprintf("%q is no time zone: write an IANA name as in Europe/Berlin, or UTC", name)}
	}
	return zone, nil
}

// wall is what the zone's clock shows at an instant, as if that were UTC. It
// makes a wall clock something to calculate with.
func wall(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// firstInstant is the first instant at which the zone's clock shows w or later.
// Where clocks go forward over w it is the moment they do; where they go back
// over it, the first of the two. w is a wall-clock time as wall returns it.
func firstInstant(w time.Time, zone *time.Location) time.Time {
	// No zone was ever a whole day off; so this is before w everywhere.
	t := w.Add(-26 * time.Hour)
	for {
		_, end := t.In(zone).ZoneBounds()
		_, offset := t.In(zone).Zone()
		at := w.Add(-time.Duration(offset) * time.Second)
		if at.Before(t) { // w was jumped over at t
			at = t
		}
		if end.IsZero() || at.Before(end) {
			return at.UTC()
		}
		t = end
	}
}

// at reports whether the window is open at t; and if so, the date on whose
// account (UTC midnight of the wall-clock date it opened on) and until when it
// is, at least: a change of the clocks ends that span too.
func (p clockWindow) at(t time.Time) (day, until time.Time, open bool) {
	w := wall(t, p.zone)
	midnight := w.Truncate(24 * time.Hour)
	for _, day = range []time.Time{midnight, midnight.Add(-24 * time.Hour)} {
		since := w.Sub(day)
		if !p.days[day.Weekday()] || since < p.start || since >= p.end {
			continue
		}
		until = t.Add(p.end - since)
		if _, change := t.In(p.zone).ZoneBounds(); !change.IsZero() && change.Before(until) {
			until = change
		}
		return day, until, true
	}
	return time.Time{}, time.Time{}, false
}

// opens is the instant at which the window opens on a date (UTC midnight of the
// wall-clock date); false where it does not that day.
func (p clockWindow) opens(day time.Time) (time.Time, bool) {
	if !p.days[day.Weekday()] {
		return time.Time{}, false
	}
	t := firstInstant(day.Add(p.start), p.zone)
	on, _, open := p.at(t)
	return t, open && on.Equal(day)
}

// around are the dates of the last opening at or before t and of the first one
// after it, with the instant of the latter. Both are found within two weeks,
// unless clock changes swallow a window that opens once a week: then a zero time.
func (p clockWindow) around(t time.Time) (last, next, opens time.Time) {
	midnight := wall(t, p.zone).Truncate(24 * time.Hour)
	for d := -14; d <= 15; d++ {
		day := midnight.Add(time.Duration(d) * 24 * time.Hour)
		at, ok := p.opens(day)
		if !ok {
			continue
		}
		if at.After(t) {
			return last, day, at
		}
		last = day
	}
	return last, time.Time{}, time.Time{}
}

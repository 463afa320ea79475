package run

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func clockAt(t *testing.T, zone, s string) time.Time {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	v, err := time.ParseInLocation("2006-01-02 15:04:05", s, loc)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestWindowContains(t *testing.T) {
	night := Window{Days: []string{"mon", "fri"}, StartTime: "22:00", EndTime: "04:00", TimeZone: "Europe/Berlin"}
	early := Window{StartTime: "01:30", EndTime: "03:30", TimeZone: "Europe/Berlin"}
	always := Window{StartTime: "00:00", EndTime: "00:00"}
	gap := Window{StartTime: "02:00", EndTime: "03:00", TimeZone: "Europe/Berlin"}
	for _, c := range []struct {
		name string
		w    Window
		now  time.Time
		span time.Duration
		want bool
	}{
		{"before it opens", night, clockAt(t, "Europe/Berlin", "2026-06-01 21:59:59"), 0, false},
		{"as it opens", night, clockAt(t, "Europe/Berlin", "2026-06-01 22:00:00"), 0, true},
		{"past midnight, on Monday's account", night, clockAt(t, "Europe/Berlin", "2026-06-02 03:59:59"), 0, true},
		{"as it closes", night, clockAt(t, "Europe/Berlin", "2026-06-02 04:00:00"), 0, false},
		{"Tuesday evening", night, clockAt(t, "Europe/Berlin", "2026-06-02 23:00:00"), 0, false},
		{"Monday before dawn is Sunday's account", night, clockAt(t, "Europe/Berlin", "2026-06-01 03:00:00"), 0, false},
		{"it can just finish", night, clockAt(t, "Europe/Berlin", "2026-06-02 03:54:50"), 310 * time.Second, true},
		{"it could not finish", night, clockAt(t, "Europe/Berlin", "2026-06-02 03:54:51"), 310 * time.Second, false},
		{"whole days touch", always, clockAt(t, "UTC", "2026-06-02 23:59:00"), 72 * time.Hour, true},

		// 2026-03-29: 02:00 becomes 03:00.
		{"the hour that does not exist", gap, clockAt(t, "Europe/Berlin", "2026-03-29 01:59:59"), 0, false},
		{"nor after it", gap, clockAt(t, "Europe/Berlin", "2026-03-29 03:00:00"), 0, false},
		{"over the gap, one hour shorter", early, clockAt(t, "Europe/Berlin", "2026-03-29 01:30:00"), time.Hour, true},
		{"and no longer", early, clockAt(t, "Europe/Berlin", "2026-03-29 01:30:00"), time.Hour + time.Second, false},
		// 2026-10-25: 03:00 becomes 02:00.
		{"over the overlap, one hour longer", early, clockAt(t, "Europe/Berlin", "2026-10-25 01:30:00"), 3 * time.Hour, true},
		{"and no longer", early, clockAt(t, "Europe/Berlin", "2026-10-25 01:30:00"), 3*time.Hour + time.Second, false},
		{"the first of two", gap, time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC), 0, true},
		{"the second of two", gap, time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC), 0, true},
		{"after both", gap, time.Date(2026, 10, 25, 2, 0, 0, 0, time.UTC), 0, false},
		// A part that comes twice, with a closed half hour in between.
		{"before the overlap's second half", Window{StartTime: "01:00", EndTime: "02:30", TimeZone: "Europe/Berlin"}, time.Date(2026, 10, 25, 0, 29, 0, 0, time.UTC), 2 * time.Minute, false},
		// Lord Howe moves by half an hour: 2026-10-04, 02:00 becomes 02:30.
		{"half an hour is missing", Window{StartTime: "01:45", EndTime: "02:45", TimeZone: "Australia/Lord_Howe"}, clockAt(t, "Australia/Lord_Howe", "2026-10-04 01:45:00"), 30 * time.Minute, true},
		{"half an hour is missing, not more", Window{StartTime: "01:45", EndTime: "02:45", TimeZone: "Australia/Lord_Howe"}, clockAt(t, "Australia/Lord_Howe", "2026-10-04 01:45:00"), 31 * time.Minute, false},
		// Troll moves by two hours: 2026-03-29, 01:00 becomes 03:00.
		{"two hours are missing", Window{StartTime: "00:30", EndTime: "03:30", TimeZone: "Antarctica/Troll"}, clockAt(t, "Antarctica/Troll", "2026-03-29 00:30:00"), time.Hour, true},
		{"an invalid window", Window{StartTime: "25:00", EndTime: "03:30"}, clockAt(t, "UTC", "2026-03-29 00:30:00"), 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.w.Contains(c.now, c.span); got != c.want {
				t.Errorf("%s contains %s for %s: %v, want %v", c.w, c.now, c.span, got, c.want)
			}
		})
	}
}

// The window is what the wall clock says, second by second.
func TestWindowIsTheWallClock(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Antarctica/Troll", "Pacific/Apia", "Africa/Casablanca", "America/Havana", "Asia/Beirut"}
	rapid.Check(t, func(rt *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(rt, "zone")
		loc, err := time.LoadLocation(zone)
		if err != nil {
			rt.Fatal(err)
		}
		clock := func(label string) string {
			m := rapid.IntRange(0, 24*60-1).Draw(rt, label)
			return time.Date(0, 1, 1, 0, m, 0, 0, time.UTC).Format("15:04")
		}
		w := Window{StartTime: clock("start"), EndTime: clock("end"), TimeZone: zone}
		if rapid.Bool().Draw(rt, "some days") {
			w.Days = rapid.SliceOfNDistinct(rapid.SampledFrom(weekdays[:]), 1, 6, rapid.ID[string]).Draw(rt, "days")
		}
		open := func(at time.Time) bool {
			l := at.In(loc)
			hhmm := l.Format("15:04")
			on := func(d time.Weekday) bool {
				for _, name := range w.Days {
					if name == weekdays[d] {
						return true
					}
				}
				return len(w.Days) == 0
			}
			if w.StartTime < w.EndTime {
				return on(l.Weekday()) && hhmm >= w.StartTime && hhmm < w.EndTime
			}
			return on(l.Weekday()) && hhmm >= w.StartTime || on((l.Weekday()+6)%7) && hhmm < w.EndTime
		}
		now := time.Unix(rapid.Int64Range(1.5e9, 2.2e9).Draw(rt, "now"), 0)
		if rapid.Bool().Draw(rt, "near a change") {
			if _, end := now.In(loc).ZoneBounds(); !end.IsZero() {
				now = end.Add(time.Duration(rapid.IntRange(-4*3600, 4*3600).Draw(rt, "off")) * time.Second)
			}
		}
		span := rapid.IntRange(0, 300).Draw(rt, "minutes")
		want := open(now)
		for i := 0; i < span*60 && want; i++ {
			want = open(now.Add(time.Duration(i) * time.Second))
		}
		if got := w.Contains(now, time.Duration(span)*time.Minute); got != want {
			rt.Fatalf("%s contains %s for %d min: %v, the clock says %v", w, now.In(loc), span, got, want)
		}
	})
}

func TestWindowValidate(t *testing.T) {
	good := Window{Days: []string{"mon"}, StartTime: "02:00", EndTime: "04:00", TimeZone: "Asia/Kathmandu"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, w := range map[string]Window{
		"days[1]":   {Days: []string{"mon", "Tuesday"}, StartTime: "02:00", EndTime: "04:00"},
		"days[2]":   {Days: []string{"mon", "tue", "mon"}, StartTime: "02:00", EndTime: "04:00"},
		"startTime": {StartTime: "2:00", EndTime: "04:00"},
		"endTime":   {StartTime: "02:00", EndTime: "24:00"},
		"timeZone":  {StartTime: "02:00", EndTime: "04:00", TimeZone: "Local"},
	} {
		var fe *FieldError
		if err := w.Validate(); !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("%v: %v, want an error in %s", w, err, field)
		}
	}
	if err := (Window{StartTime: "02:00", EndTime: "04:00", TimeZone: "Europe/Belin"}).Validate(); err == nil {
		t.Error("a time zone that does not exist was taken")
	}
}

func TestWindowString(t *testing.T) {
	for want, w := range map[string]Window{
		"every day 02:00 to 04:00 UTC":                          {StartTime: "02:00", EndTime: "04:00"},
		"mon, fri 22:00 to 04:00 of the next day Europe/Berlin": {Days: []string{"mon", "fri"}, StartTime: "22:00", EndTime: "04:00", TimeZone: "Europe/Berlin"},
		"sun 00:00 to 00:00 of the next day Antarctica/Troll":   {Days: []string{"sun"}, StartTime: "00:00", EndTime: "00:00", TimeZone: "Antarctica/Troll"},
		"every day nonsense to 04:00 UTC":                       {StartTime: "nonsense", EndTime: "04:00"},
	} {
		if got := w.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

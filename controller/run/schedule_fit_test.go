package run

import (
	"testing"
	"time"
)

func TestFits(t *testing.T) {
	weekly := func(days []string, from, to, zone string) Schedule {
		return Schedule{Every: Weekly, Days: days, StartTime: from, EndTime: to, TimeZone: zone, Servers: []string{"a"}, Everyone: true}
	}
	monthly := func(hour int, zone string) Schedule {
		return Schedule{Every: Monthly, Hour: &hour, TimeZone: zone, Servers: []string{"a"}, Everyone: true}
	}
	week := []string{"mon", "tue", "wed", "thu", "fri"}
	for _, c := range []struct {
		name   string
		s      Schedule
		window *Window
		want   bool
	}{
		{"no window", monthly(3, ""), nil, true},
		{"in office hours at night", monthly(3, ""), &Window{Days: week, StartTime: "09:00", EndTime: "16:00"}, false},
		{"in office hours by day", monthly(9, ""), &Window{Days: week, StartTime: "09:00", EndTime: "16:00"}, true},
		{"at night in another zone", monthly(3, "America/New_York"), &Window{StartTime: "08:00", EndTime: "10:00", TimeZone: "Europe/Berlin"}, true},
		{"the window closes before it is over", weekly([]string{"tue"}, "15:59", "17:00", ""), &Window{StartTime: "09:00", EndTime: "16:00"}, false},
		{"just in time", weekly([]string{"tue"}, "15:55", "17:00", ""), &Window{StartTime: "09:00", EndTime: "16:00"}, true},
		{"another day", weekly([]string{"tue"}, "10:00", "12:00", ""), &Window{Days: []string{"wed"}, StartTime: "09:00", EndTime: "16:00"}, false},
		{"one minute of its own is enough to start", weekly([]string{"tue"}, "10:00", "10:01", ""), &Window{StartTime: "09:00", EndTime: "16:00"}, true},
		{"a window of whole days that touch", weekly(nil, "23:59", "00:00", ""), &Window{StartTime: "00:00", EndTime: "00:00"}, true},
		{"only in summer do the two zones meet", weekly(nil, "09:00", "09:30", "Europe/Berlin"), &Window{StartTime: "07:00", EndTime: "07:30"}, true},
	} {
		if got := c.s.Fits("office", c.window, DefaultTimings); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	for _, c := range []struct {
		w    Window
		want bool
	}{
		{Window{StartTime: "10:00", EndTime: "10:04"}, false}, // 30 + 40 + 15 + 180 s are 4 min 25 s
		{Window{StartTime: "10:00", EndTime: "10:05"}, true},
		{Window{StartTime: "10:00", EndTime: "10:00"}, true},
	} {
		if got := c.w.Fits(15, DefaultTimings); got != c.want {
			t.Errorf("%s: %v", c.w, got)
		}
	}
	short, long := weekly(nil, "10:00", "10:01", ""), weekly(nil, "10:00", "11:00", "")
	if short.RunsPast(DefaultTimings) == "" || long.RunsPast(DefaultTimings) != "" || monthly(3, "").RunsPast(DefaultTimings) != "" {
		t.Errorf("%q, %q", short.RunsPast(DefaultTimings), long.RunsPast(DefaultTimings))
	}
}

// What clients get from the other servers is no answer to rely on above the
// ceilings, however usual it is there.
func TestCeiling(t *testing.T) {
	for _, c := range []struct {
		u    Usual
		much bool
	}{
		{Usual{}, false},
		{Usual{Answers: 4, ServFail: 4}, false}, // too few to tell
		{Usual{Answers: 5, ServFail: 5}, true},
		{Usual{Answers: 25, ServFail: 5}, false}, // 20 % is not above it
		{Usual{Answers: 24, ServFail: 5}, true},
		{Usual{Answers: 100, Refused: 50}, false}, // an access list that is busy
		{Usual{Answers: 100, Refused: 51}, true},
		{Usual{Answers: 100, Refused: 35, ServFail: 16}, true},
	} {
		if got := c.u.tooMany(); (got != "") != c.much {
			t.Errorf("%+v: %q", c.u, got)
		}
	}
	hour := time.Now()
	f := Facts{Now: hour, Usual: &Usual{Answers: 10, ServFail: 10}}
	if _, refused := incidentOpen(Spec{}, &f); !refused {
		t.Error("no guard refuses")
	}
}

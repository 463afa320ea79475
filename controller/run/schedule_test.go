package run

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

var goldenUpdate = flag.Bool("update-schedule", false, "write testdata/schedule.golden anew")

// Zones whose clocks change in the first seven days of a month, by odd amounts,
// at odd hours, or did so until lately.
var goldenZones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Havana", "America/St_Johns", "America/Santiago", "America/Asuncion",
	"Australia/Lord_Howe", "Australia/Sydney", "Pacific/Apia", "Pacific/Kiritimati", "Asia/Kathmandu", "Asia/Tehran",
	"Asia/Beirut", "Africa/Casablanca", "Africa/Cairo", "Antarctica/Troll", "Europe/Dublin",
}

func ptr[T any](v T) *T { return &v }

func monthly(zone string, hour int) Schedule {
	return Schedule{Name: "first-week", Every: Monthly, Hour: &hour, TimeZone: zone, Suspend: new(false), Servers: []string{"ns1", "ns2", "ns3"}, Everyone: true}
}

// The months of many years in every zone and hour: the drill's hour begins where
// a clock on the wall says so, found by looking at that clock minute by minute.
// Years that are over agree with what is on disk too (of later ones, the rules
// may change under us).
func TestMonthlyGolden(t *testing.T) {
	var out bytes.Buffer
	for _, zone := range goldenZones {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for year := 2020; year <= 2028; year++ {
			for _, hour := range []int{0, 1, 2, 3, 23} {
				s := monthly(zone, hour)
				var line strings.Builder
				fmt.Fprintf(&line, "%s %d %02dh", zone, year, hour)
				for month := time.January; month <= time.December; month++ {
					got := s.hourOf("office", year, month)
					day := DayOf("office", year, month)
					want := lookAtTheClock(loc, year, month, day, hour)
					if !got.Equal(want) {
						t.Errorf("%s %d-%02d-%02d %02d:00: %s, the clock says %s", zone, year, month, day, hour, got.In(loc), want.In(loc))
					}
					fmt.Fprintf(&line, " %s", got.Format("02T15:04"))
				}
				if year <= 2025 {
					out.WriteString(line.String() + "\n")
				}
			}
		}
	}
	file := filepath.Join("testdata", "schedule.golden")
	if *goldenUpdate {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(out.String(), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Fatalf("line %d:\n got %s\nwant %s", i+1, gotLines[i], wantLines[i])
		}
	}
	if len(gotLines) != len(wantLines) {
		t.Fatalf("%d lines, want %d", len(gotLines), len(wantLines))
	}
}

func lookAtTheClock(loc *time.Location, year int, month time.Month, day, hour int) time.Time {
	want := fmt.Sprintf("%04d-%02d-%02d %02d:00", year, month, day, hour)
	for t := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Add(-16 * time.Hour); ; t = t.Add(time.Minute) {
		if t.In(loc).Format("2006-01-02 15:04") >= want {
			return t
		}
	}
}

func TestDayMoves(t *testing.T) {
	days := map[int]bool{}
	for month := time.January; month <= time.December; month++ {
		d := DayOf("office", 2026, month)
		if d < 1 || d > 7 {
			t.Errorf("%s: day %d", month, d)
		}
		days[d] = true
	}
	if len(days) < 4 {
		t.Errorf("a year's drills are on %d different days only", len(days))
	}
	// FNV-1a-64 of "office/2026-11", computed elsewhere.
	if got := DayOf("office", 2026, time.November); got != 1+int(fnv1a("office/2026-11")%7) {
		t.Errorf("day %d", got)
	}
}

func fnv1a(s string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(s) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// play asks Due every ten seconds from one time to another, and lets answer say
// what came of each try.
func playSchedule(t *testing.T, s Schedule, m Memory, others []Other, from, to time.Time, answer func(Try, time.Time) (Reason, string)) (Memory, []string) {
	t.Helper()
	var told []string
	for now := from; now.Before(to); now = now.Add(10 * time.Second) {
		var try Try
		try, m = Due(s, "office", others, m, now)
		switch try.Kind {
		case TryStart:
			reason, id := answer(try, now)
			if reason != "" {
				m = m.Refused(reason, "because")
				continue
			}
			m = m.Started(id, now)
			others = append(others, Other{ID: id, Server: try.Server, Ended: now.Add(time.Minute)})
			told = append(told, fmt.Sprintf("%s start %s %s", now.UTC().Format("01-02T15:04:05"), try.Server, try.Chance))
		case TrySkip:
			told = append(told, fmt.Sprintf("%s skip %s %s: %s", now.UTC().Format("01-02T15:04:05"), try.Server, try.Chance, try.Reason))
		}
	}
	return m, told
}

func accept(try Try, _ time.Time) (Reason, string) { return "", "run-" + try.Chance }

func sameLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestMonthlyRotatesAndDrillsOnce(t *testing.T) {
	m, told := Memory{}, []string(nil)
	var others []Other
	s := monthly("Europe/Berlin", 3)
	for month := time.January; month <= time.May; month++ {
		began := s.hourOf("office", 2026, month)
		var some []string
		m, some = playSchedule(t, s, m, others, began.Add(-time.Hour), began.Add(3*time.Hour), accept)
		others = append(others, Other{ID: m.LastRun, Ended: m.LastAt})
		told = append(told, some...)
	}
	sameLines(t, told,
		"01-"+beganIn(s, 1)+" start ns1 2026-01", "02-"+beganIn(s, 2)+" start ns2 2026-02", "03-"+beganIn(s, 3)+" start ns3 2026-03",
		"04-"+beganIn(s, 4)+" start ns1 2026-04", "05-"+beganIn(s, 5)+" start ns2 2026-05")
}

func beganIn(s Schedule, month time.Month) string {
	return s.hourOf("office", 2026, month).Format("02T15:04:05")
}

func TestRefusedAllHourIsSaidOnce(t *testing.T) {
	s := monthly("UTC", 3)
	start := s.hourOf("office", 2026, time.June)
	tries := 0
	m, told := playSchedule(t, s, Memory{}, nil, start.Add(-time.Minute), start.Add(30*time.Hour), func(Try, time.Time) (Reason, string) {
		tries++
		return LastHealthy, ""
	})
	if tries != 60 {
		t.Errorf("%d tries in the hour, want 60: once a minute", tries)
	}
	sameLines(t, told, start.Add(time.Hour).Format("01-02T15:04:05")+" skip ns3 2026-06: LastHealthy")
	if m.Reason != LastHealthy || m.Message != "because" {
		t.Errorf("memory forgot why: %+v", m)
	}
}

func TestRefusalThatPassesWithinTheHour(t *testing.T) {
	s := monthly("UTC", 3)
	start := s.hourOf("office", 2026, time.June)
	_, told := playSchedule(t, s, Memory{}, nil, start.Add(-time.Minute), start.Add(2*time.Hour), func(try Try, now time.Time) (Reason, string) {
		if now.Sub(start) < 20*time.Minute {
			return TargetBusy, ""
		}
		return accept(try, now)
	})
	sameLines(t, told, start.Add(20*time.Minute).Format("01-02T15:04:05")+" start ns3 2026-06")
}

func TestSevenDaysApart(t *testing.T) {
	s := monthly("UTC", 3)
	start := s.hourOf("office", 2026, time.June)
	other := func(ended time.Time) []Other { return []Other{{ID: "x", Server: "ns2", Ended: ended}} }
	_, told := playSchedule(t, s, Memory{}, other(start.Add(-ScheduleApart+90*time.Minute)), start.Add(-time.Hour), start.Add(2*time.Hour), accept)
	sameLines(t, told, start.Add(time.Hour).Format("01-02T15:04:05")+" skip ns3 2026-06: TooSoon")
	_, told = playSchedule(t, s, Memory{}, other(start.Add(-ScheduleApart+time.Second)), start.Add(-time.Hour), start.Add(2*time.Hour), accept)
	sameLines(t, told, start.Add(time.Minute).Format("01-02T15:04:05")+" start ns3 2026-06")
	_, told = playSchedule(t, s, Memory{}, other(time.Time{}), start, start.Add(2*time.Hour), accept) // one is on
	sameLines(t, told, start.Add(time.Hour).Format("01-02T15:04:05")+" skip ns3 2026-06: TooSoon")
}

func TestMissedIsSaidOnceAndOnlyIfItWasThereBefore(t *testing.T) {
	s := monthly("UTC", 3)
	start := s.hourOf("office", 2026, time.June)
	_, told := playSchedule(t, s, Memory{}, nil, start.Add(2*time.Hour), start.Add(20*time.Hour), accept)
	sameLines(t, told) // made after the hour
	_, told = playSchedule(t, s, Memory{Since: start.Add(-50 * time.Hour)}, nil, start.Add(2*time.Hour), start.Add(20*time.Hour), accept)
	sameLines(t, told, start.Add(2*time.Hour).Format("01-02T15:04:05")+" skip ns3 2026-06: MissedChance")
}

func TestSuspended(t *testing.T) {
	s := monthly("UTC", 3)
	start := s.hourOf("office", 2026, time.June)
	for _, suspend := range []*bool{nil, new(true)} {
		s.Suspend = suspend
		m, told := playSchedule(t, s, Memory{Since: start.Add(-50 * time.Hour)}, nil, start.Add(-time.Minute), start.Add(2*time.Hour), accept)
		sameLines(t, told)
		s.Suspend = new(false)
		_, told = playSchedule(t, s, m, nil, start.Add(2*time.Hour), start.Add(3*time.Hour), accept) // what it slept through is no miss
		sameLines(t, told)
	}
}

func weekly(zone string, days ...string) Schedule {
	return Schedule{Name: "nightly", Every: Weekly, Days: days, StartTime: "22:00", EndTime: "02:00", TimeZone: zone, Suspend: new(false), Servers: []string{"ns1", "ns2"}, Clients: []string{"laptop"}}
}

func TestWeekly(t *testing.T) {
	s := weekly("UTC", "tue", "sun")
	monday := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	start := monday.Add(3 * time.Hour) // the week before is over
	refuseTuesday := func(try Try, now time.Time) (Reason, string) {
		if now.Before(monday.AddDate(0, 0, 5)) {
			return OutsideWindow, ""
		}
		return accept(try, now)
	}
	// Refused on Tuesday, so on Sunday; then on Tuesday it is too soon, and on
	// Sunday until a week after the last one's end.
	_, told := playSchedule(t, s, Memory{}, nil, start, monday.AddDate(0, 0, 15), refuseTuesday)
	sameLines(t, told, "06-07T22:00:00 start ns2 2026-06-01", "06-14T22:01:00 start ns1 2026-06-08")
	// Sunday's window runs into the next week and still is the week before's.
	_, told = playSchedule(t, s, Memory{}, nil, start, monday.AddDate(0, 0, 8), func(try Try, now time.Time) (Reason, string) {
		if now.Before(monday.AddDate(0, 0, 7)) {
			return TargetBusy, ""
		}
		return accept(try, now)
	})
	sameLines(t, told, "06-08T00:00:00 start ns2 2026-06-01")
	// Refused in both: said once, when the last one of the week is over.
	_, told = playSchedule(t, s, Memory{}, nil, start, monday.AddDate(0, 0, 8), func(Try, time.Time) (Reason, string) { return NoTargets, "" })
	sameLines(t, told, "06-08T02:00:00 skip ns2 2026-06-01: NoTargets")
}

func TestWeeklyWindowsThatTouch(t *testing.T) {
	s := weekly("UTC")
	s.StartTime, s.EndTime = "00:00", "00:00"
	monday := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	_, told := playSchedule(t, s, Memory{}, nil, monday, monday.AddDate(0, 0, 8), func(try Try, now time.Time) (Reason, string) {
		if now.Before(monday.AddDate(0, 0, 7)) {
			return NoTargets, ""
		}
		return accept(try, now)
	})
	sameLines(t, told, "06-08T00:00:00 skip ns2 2026-06-01: NoTargets", "06-08T00:00:10 start ns1 2026-06-08")
}

// A schedule that ran through every month of a decade in every zone drilled in
// each exactly once.
func TestEveryMonthOnce(t *testing.T) {
	for _, zone := range goldenZones {
		for _, hour := range []int{0, 2, 23} {
			s := monthly(zone, hour)
			var m Memory
			var others []Other
			runs := 0
			for now := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Add(-24 * time.Hour); now.Year() < 2031; {
				var try Try
				try, m = Due(s, "lab", others, m, now)
				if try.Kind == TryStart {
					runs++
					m = m.Started("r", now)
					others = []Other{{ID: "r", Ended: now.Add(time.Minute)}}
				} else if try.Kind == TrySkip {
					t.Errorf("%s %dh: skipped %s: %s", zone, hour, try.Chance, try.Reason)
				}
				next := s.Next("lab", m, now)
				if !next.After(now) {
					t.Fatalf("%s %dh: at %s it drilled, and next is %s", zone, hour, now, next)
				}
				now = next
			}
			if runs < 11*12 || runs > 11*12+1 {
				t.Errorf("%s %dh: %d runs in 11 years", zone, hour, runs)
			}
		}
	}
}

func TestNextWeekly(t *testing.T) {
	s := weekly("Europe/Berlin", "sun")
	now := clockAt(t, "Europe/Berlin", "2026-06-03 12:00:00")
	if got, want := s.Next("office", Memory{}, now), clockAt(t, "Europe/Berlin", "2026-06-07 22:00:00"); !got.Equal(want) {
		t.Errorf("%s, want %s", got, want)
	}
	done := Memory{Chance: "2026-06-01", Done: true}
	now = clockAt(t, "Europe/Berlin", "2026-06-07 23:00:00")
	if got, want := s.Next("office", done, now), clockAt(t, "Europe/Berlin", "2026-06-14 22:00:00"); !got.Equal(want) {
		t.Errorf("%s, want %s", got, want)
	}
	if got := s.Next("office", Memory{}, now); !got.Equal(now) {
		t.Errorf("%s, want now", got)
	}
	s.Suspend = nil
	if got := s.Next("office", Memory{}, now); !got.IsZero() {
		t.Errorf("a suspended one is next at %s", got)
	}
}

func TestScheduleValidate(t *testing.T) {
	for _, s := range []Schedule{monthly("UTC", 0), weekly("Europe/Berlin", "mon"), {Name: "a", Every: Monthly, Servers: []string{"x"}, Everyone: true},
		{Name: "a", Every: Monthly, Servers: []string{"x"}, Upstream: "10.0.0.53", Mode: ModeDown}, {Name: "a", Every: Monthly, Servers: []string{"x"}, Upstream: "[2001:db8::1]:53"}} {
		if err := s.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	change := func(field string, f func(*Schedule)) {
		for _, s := range []Schedule{monthly("UTC", 0), weekly("UTC", "mon")} {
			f(&s)
			var fe *FieldError
			if err := s.Validate(); errors.As(err, &fe) && fe.Field == field {
				return
			}
		}
		t.Errorf("no error in %s", field)
	}
	change("name", func(s *Schedule) { s.Name = "Upper" })
	change("name", func(s *Schedule) { s.Name = strings.Repeat("a", 33) })
	change("every", func(s *Schedule) { s.Every = "daily" })
	change("hour", func(s *Schedule) { s.Hour = new(24) })
	change("days", func(s *Schedule) { s.Days = []string{"mon"} })
	change("days[0]", func(s *Schedule) { s.Days = []string{"monday"} })
	change("startTime", func(s *Schedule) { s.StartTime = "10:00" })
	change("endTime", func(s *Schedule) { s.EndTime = "soon" })
	change("timeZone", func(s *Schedule) { s.TimeZone = "Mars/Olympus" })
	change("servers", func(s *Schedule) { s.Servers = nil })
	change("clients", func(s *Schedule) { s.Everyone, s.Clients = false, nil })
	change("clients", func(s *Schedule) { s.Everyone, s.Clients = true, []string{"laptop"} })
	change("mode", func(s *Schedule) { s.Mode = "kill" })
	change("readiness", func(s *Schedule) { s.Readiness = "maybe" })
	change("durationSeconds", func(s *Schedule) { s.Seconds = 301 })
	change("durationSeconds", func(s *Schedule) { s.Seconds = 14 })
	upstream := func(s *Schedule) { s.Everyone, s.Clients, s.Upstream = false, nil, "10.0.0.53" }
	change("upstream", func(s *Schedule) { upstream(s); s.Upstream = "nobody" })
	change("mode", func(s *Schedule) { upstream(s); s.Mode = protocol.ModeDrop })
	change("mode", func(s *Schedule) { s.Mode = ModeDown })
	change("clients", func(s *Schedule) { upstream(s); s.Clients = []string{"laptop"} })
	change("exclude", func(s *Schedule) { upstream(s); s.Exclude = []string{"laptop"} })
	change("readiness", func(s *Schedule) { upstream(s); s.Readiness = protocol.ReadinessFail })
	change("durationSeconds", func(s *Schedule) { upstream(s); s.Seconds = 14 })
}

func TestScheduleSpecDefaults(t *testing.T) {
	spec := monthly("UTC", 0).Spec("ns2")
	if spec.Server != "ns2" || spec.Seconds != 30 || spec.Mode != protocol.ModeDrop || spec.Readiness != protocol.ReadinessFail ||
		spec.By != "schedule/first-week" || spec.Reason == "" || spec.Limits != DefaultLimits || spec.Stage != StageServer {
		t.Errorf("%+v", spec)
	}
	s := monthly("UTC", 0)
	s.Everyone, s.Upstream = false, "10.0.0.53"
	if spec := s.Spec("ns2"); spec.Stage != StageUpstream || spec.Upstream != "10.0.0.53:53" || spec.Mode != ModeBlackhole || spec.Readiness != "" || spec.Bounds() != nil {
		t.Errorf("%+v: %s", spec, spec.Bounds())
	}
}

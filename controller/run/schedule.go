package run

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Every says how often a schedule drills.
type Every string

const (
	Monthly Every = "monthly" // in one hour of one of the month's first seven days
	Weekly  Every = "weekly"  // in the first minute of the week's windows at which nothing speaks against it
)

// ScheduleApart is how long after the end of any drill of the fleet a schedule
// waits. A person who asks for a drill need not.
const ScheduleApart = 7 * 24 * time.Hour

// Schedule starts drills by itself. What it leaves out has the default named;
// Start says what a drill of it is.
type Schedule struct {
	Name  string `json:"name"` // 1 to 32 of [a-z0-9-]
	Every Every  `json:"every"`
	// Hour of Monthly, 0 to 23 on the zone's clock; 3 where it is left out.
	Hour *int `json:"hour,omitempty"`
	// Days, StartTime and EndTime of Weekly, as in Window.
	Days      []string `json:"days,omitempty"`
	StartTime string   `json:"startTime,omitempty"`
	EndTime   string   `json:"endTime,omitempty"`
	TimeZone  string   `json:"timeZone,omitempty"` // of both; UTC where it is left out
	// Suspend keeps it from starting anything. True unless it says false: nobody
	// gets a drill by pasting an example.
	Suspend *bool `json:"suspend,omitempty"`

	Servers []string `json:"servers"` // one of them each time, in turn
	// Upstream of those servers, IP:PORT, to take away in their place. Then there
	// are no clients to name, and Mode is blackhole or down.
	Upstream  string             `json:"upstream,omitempty"`
	Everyone  bool               `json:"everyone,omitempty"`        // every client; else Clients
	Clients   []string           `json:"clients,omitempty"`         // addresses, prefixes, names or groups
	Exclude   []string           `json:"exclude,omitempty"`         // likewise
	Mode      protocol.DrillMode `json:"mode,omitempty"`            // drop
	Readiness protocol.Readiness `json:"readiness,omitempty"`       // fail
	Seconds   int                `json:"durationSeconds,omitempty"` // 30
	Limits    *Limits            `json:"limits,omitempty"`          // DefaultLimits
	Monitors  []Monitor          `json:"monitors,omitempty"`        // the fleet's
	Reason    string             `json:"reason,omitempty"`          // "scheduled"
}

// DefaultScheduleSeconds is how long a scheduled drill lasts, in seconds.
const DefaultScheduleSeconds = 30

// DefaultScheduleHour is when a monthly one is tried.
const DefaultScheduleHour = 3

// Suspended reports whether it starts nothing.
func (s Schedule) Suspended() bool { return s.Suspend == nil || *s.Suspend }

// Validate says what is wrong with the schedule itself, as a *FieldError. That
// its servers exist is for those to check who know the fleet.
func (s Schedule) Validate() error {
	if !scheduleName(s.Name) {
		return &FieldError{"name", fmt.Sprintf("%q is no name: use 1 to 32 of a-z, 0-9 and -", s.Name)}
	}
	switch s.Every {
	case Monthly:
		if s.Hour != nil && (*s.Hour < 0 || *s.Hour > 23) {
			return &FieldError{"hour", fmt.Sprintf("%d is no hour: write 0 to 23", *s.Hour)}
		}
		for _, f := range []struct{ field, value string }{{"startTime", s.StartTime}, {"endTime", s.EndTime}} {
			if f.value != "" {
				return &FieldError{f.field, "a monthly schedule has an hour, not a start and an end: write hour, or every: weekly"}
			}
		}
		if len(s.Days) > 0 {
			return &FieldError{"days", "a monthly schedule picks its day by itself, from the month's first seven: leave days out, or write every: weekly"}
		}
		if _, err := loadZone(s.TimeZone); err != nil {
			return err
		}
	case Weekly:
		if s.Hour != nil {
			return &FieldError{"hour", "a weekly schedule has days, startTime and endTime: leave hour out, or write every: monthly"}
		}
		if err := s.window().Validate(); err != nil {
			return err
		}
	default:
		return &FieldError{"every", fmt.Sprintf("%q is not known: write monthly or weekly", s.Every)}
	}
	if len(s.Servers) == 0 {
		return &FieldError{"servers", "name at least one server of the fleet"}
	}
	if s.Everyone && len(s.Clients) > 0 {
		return &FieldError{"clients", "everyone is set, so clients says nothing: leave one of the two out"}
	}
	if s.Upstream == "" && !s.Everyone && len(s.Clients) == 0 {
		return &FieldError{"clients", "name the clients to drill, or set everyone: true"}
	}
	return s.validateDrill()
}

func (s Schedule) validateDrill() error {
	if s.Seconds != 0 && (s.Seconds < protocol.MinDrillSeconds || s.Seconds > protocol.MaxDrillSeconds) {
		return &FieldError{"durationSeconds", fmt.Sprintf("%d is out of bounds: write %d to %d", s.Seconds, protocol.MinDrillSeconds, protocol.MaxDrillSeconds)}
	}
	if s.Limits != nil {
		if e := s.Limits.Bounds(); e != nil {
			return &FieldError{"limits." + e.Field, e.Message}
		}
	}
	if s.Upstream != "" {
		return s.validateUpstream()
	}
	if s.Mode != "" && s.Mode != protocol.ModeDrop && s.Mode != protocol.ModeRefused {
		return &FieldError{"mode", fmt.Sprintf("%q is not known: write drop or refused", s.Mode)}
	}
	if s.Readiness != "" && s.Readiness != protocol.ReadinessFail && s.Readiness != protocol.ReadinessPass {
		return &FieldError{"readiness", fmt.Sprintf("%q is not known: write fail or pass", s.Readiness)}
	}
	return nil
}

// validateUpstream holds the schedule of an upstream's drills to what such a drill has.
func (s Schedule) validateUpstream() error {
	spec := s.Spec("")
	switch {
	case !spec.AddressesUpstream():
		return &FieldError{"upstream", fmt.Sprintf("%q is no address: write IP:PORT, or [IP]:PORT for IPv6", s.Upstream)}
	case !spec.KnowsMode():
		return &FieldError{"mode", fmt.Sprintf("%q is not known for an upstream: write blackhole or down", s.Mode)}
	case len(s.Clients) > 0:
		return &FieldError{"clients", "an upstream is away for every client of its server: leave clients out"}
	case len(s.Exclude) > 0:
		return &FieldError{"exclude", "an upstream is away for every client of its server: leave exclude out"}
	case !spec.KnowsReadiness():
		return &FieldError{"readiness", "the server of an upstream's drill stays ready: leave readiness out"}
	}
	return nil
}

func scheduleName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

// Spec of a drill of this schedule on a server. The caller adds what it knows
// better: ID, Fleet, Timings, Requested, and the fleet's monitors where the
// schedule has none of its own.
func (s Schedule) Spec(server string) Spec {
	spec := Spec{
		Server: server, Stage: StageServer, Upstream: s.Upstream, Mode: s.Mode, Seconds: s.Seconds, Readiness: s.Readiness,
		Everyone: s.Everyone, Clients: slices.Clone(s.Clients), Exclude: slices.Clone(s.Exclude),
		Limits: DefaultLimits, Monitors: slices.Clone(s.Monitors),
		Reason: s.Reason, By: "schedule/" + s.Name, Schedule: s.Name,
	}
	if s.Upstream != "" {
		spec.Stage = StageUpstream
	}
	spec = spec.WithDefaults()
	if spec.Seconds == 0 {
		spec.Seconds = DefaultScheduleSeconds
	}
	if s.Limits != nil {
		spec.Limits = *s.Limits
	}
	if spec.Reason == "" {
		spec.Reason = "scheduled"
	}
	return spec
}

// Memory is what must be remembered of a schedule from one Due to the next, and
// over a restart. The zero Memory is a schedule that was just made.
type Memory struct {
	Since   time.Time `json:"since"`            // it has been active since then
	Chance  string    `json:"chance,omitempty"` // the month or week that the rest is about: 2026-11, or its Monday 2026-11-02
	Done    bool      `json:"done,omitempty"`   // it drilled in that chance, or said why not
	Server  string    `json:"server,omitempty"` // whose turn it was
	Tried   time.Time `json:"tried"`            // last
	Reason  Reason    `json:"reason,omitempty"` // why the last try was refused
	Message string    `json:"message,omitempty"`
	LastRun string    `json:"lastRun,omitempty"` // ID of the last run that it started
	LastAt  time.Time `json:"lastAt"`            // and when
}

// Refused returns the memory after a try that a guard refused.
func (m Memory) Refused(reason Reason, message string) Memory {
	m.Reason, m.Message = reason, message
	return m
}

// Started returns the memory after a try that became a run.
func (m Memory) Started(id string, at time.Time) Memory {
	m.Done, m.Reason, m.Message = true, "", ""
	m.LastRun, m.LastAt = id, at.UTC()
	return m
}

// TryKind is what to do for a schedule now.
type TryKind string

const (
	TryNothing TryKind = ""
	TryStart   TryKind = "start" // ask the guards and start; tell the memory what came of it
	TrySkip    TryKind = "skip"  // its chance is over: say once that it was refused, and why
)

// Try is the answer of Due.
type Try struct {
	Kind    TryKind
	Server  string // whose turn it is
	Chance  string // as in Memory
	Reason  Reason // of TrySkip
	Message string // of TrySkip
}

// MissedChance is the reason of a chance at which nothing was tried, since no
// controller was running.
const MissedChance Reason = "MissedChance"

// Due says what to do for a schedule of a fleet at now, and what to remember.
// others are the fleet's drills of the last 7 days, of this schedule too. Ask
// about every ten seconds: a try is made in each minute at most. A schedule
// that is not valid, or suspended, never is due.
func Due(s Schedule, fleet string, others []Other, m Memory, now time.Time) (Try, Memory) {
	if s.Suspended() || s.Validate() != nil {
		return Try{}, Memory{LastRun: m.LastRun, LastAt: m.LastAt, Chance: m.Chance, Done: m.Done, Server: m.Server}
	}
	if m.Since.IsZero() {
		m.Since = now.UTC()
	}
	c := s.chance(fleet, now)
	if m.Chance != "" && m.Chance != c.key && !m.Done && m.Reason != "" {
		// Windows may touch, and nobody may have asked in between: what was
		// refused in the chance before is said first.
		m.Done = true
		return Try{Kind: TrySkip, Server: m.Server, Chance: m.Chance, Reason: m.Reason, Message: m.Message}, m
	}
	if c.open {
		if m.Chance != c.key {
			m = Memory{Since: m.Since, Chance: c.key, Server: c.server, LastRun: m.LastRun, LastAt: m.LastAt}
		}
		if m.Done || m.Tried.Truncate(time.Minute).Equal(now.UTC().Truncate(time.Minute)) {
			return Try{}, m
		}
		m.Tried, m.Server = now.UTC(), c.server
		if o, near := nearest(others, now); near {
			return Try{}, m.Refused(TooSoon, tooNear(o))
		}
		return Try{Kind: TryStart, Server: c.server, Chance: c.key}, m
	}
	// Not open. What is to be said of the chance that was last?
	if m.Chance == c.key && !m.Done && c.over {
		m.Done = true
		if m.Reason == "" {
			m.Reason, m.Message = MissedChance, "its last try came to nothing"
		}
		return Try{Kind: TrySkip, Server: c.server, Chance: c.key, Reason: m.Reason, Message: m.Message}, m
	}
	if m.Chance != c.key && c.over && !c.began.Before(m.Since) {
		m = Memory{Since: m.Since, Chance: c.key, Server: c.server, Done: true, LastRun: m.LastRun, LastAt: m.LastAt}
		m = m.Refused(MissedChance, "no controller was running at the time")
		return Try{Kind: TrySkip, Server: c.server, Chance: c.key, Reason: m.Reason, Message: m.Message}, m
	}
	return Try{}, m
}

// nearest is the drill that a schedule must keep away from, if there is one.
func nearest(others []Other, now time.Time) (near Other, found bool) {
	for _, o := range others {
		if !o.Ended.IsZero() && now.Sub(o.Ended) >= ScheduleApart {
			continue
		}
		if !found || o.Ended.IsZero() || (!near.Ended.IsZero() && o.Ended.After(near.Ended)) {
			near, found = o, true
		}
	}
	return near, found
}

func tooNear(o Other) string {
	if o.Ended.IsZero() {
		return fmt.Sprintf("drill %s of %s is on", o.ID, o.Server)
	}
	return fmt.Sprintf("drill %s of %s ended at %s; a schedule keeps 7 days away from other drills of the fleet",
		o.ID, o.Server, o.Ended.UTC().Format(time.RFC3339))
}

// Next is when the schedule will be tried next, for people to read: now or
// later. Zero: never.
func (s Schedule) Next(fleet string, m Memory, now time.Time) time.Time {
	if s.Suspended() || s.Validate() != nil {
		return time.Time{}
	}
	c := s.chance(fleet, now)
	if c.open && !(m.Chance == c.key && m.Done) {
		return now.UTC()
	}
	if s.Every == Monthly {
		w := wall(now, s.zone())
		for i := range 3 {
			if at := s.hourOf(fleet, w.Year(), w.Month()+time.Month(i)); at.After(now) {
				return at
			}
		}
		return time.Time{}
	}
	p, _ := s.window().parse()
	for t := now; ; {
		_, day, opens := p.around(t)
		if opens.IsZero() || !(m.Chance == week(day) && m.Done) {
			return opens
		}
		t = opens
	}
}

// chance is a month or week in which a schedule drills once.
type chance struct {
	key    string
	server string    // whose turn it is
	began  time.Time // its (last) opening
	open   bool      // now
	over   bool      // for good
}

// chance at now: the one that is open, else the last that was.
func (s Schedule) chance(fleet string, now time.Time) chance {
	if s.Every == Monthly {
		w := wall(now, s.zone())
		year, month := w.Year(), w.Month()
		began := s.hourOf(fleet, year, month)
		if now.Before(began) {
			if month--; month < time.January {
				year, month = year-1, time.December
			}
			began = s.hourOf(fleet, year, month)
		}
		open := now.Before(began.Add(time.Hour))
		return chance{
			key:    fmt.Sprintf("%04d-%02d", year, month),
			server: s.Servers[(year*12+int(month)-1)%len(s.Servers)],
			began:  began, open: open, over: !open,
		}
	}
	p, _ := s.window().parse()
	if day, _, open := p.at(now); open {
		at, _ := p.opens(day)
		return chance{key: week(day), server: s.weekServer(day), began: at, open: true}
	}
	last, next, _ := p.around(now)
	if last.IsZero() {
		return chance{}
	}
	at, _ := p.opens(last)
	return chance{key: week(last), server: s.weekServer(last), began: at, over: next.IsZero() || week(last) != week(next)}
}

// hourOf a month begins at the first instant at which the zone's clock shows
// the hour or later, and lasts sixty minutes: an hour that does not exist that
// day is the one right after it, and of one that comes twice it is the first.
func (s Schedule) hourOf(fleet string, year int, month time.Month) time.Time {
	hour := DefaultScheduleHour
	if s.Hour != nil {
		hour = *s.Hour
	}
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC) // month may be past December
	return firstInstant(first.AddDate(0, 0, DayOf(fleet, first.Year(), first.Month())-1).Add(time.Duration(hour)*time.Hour), s.zone())
}

// DayOf is the day of the month, 1 to 7, on which a fleet's monthly drills are.
func DayOf(fleet string, year int, month time.Month) int {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%04d-%02d", fleet, year, month) // a hash never fails to write
	return 1 + int(h.Sum64()%7)
}

// week is the key of a week: its Monday.
func week(day time.Time) string { return monday(day).Format(time.DateOnly) }

func monday(day time.Time) time.Time {
	return day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
}

func (s Schedule) weekServer(day time.Time) string {
	weeks := int(monday(day).Unix() / (7 * 24 * 3600))
	return s.Servers[weeks%len(s.Servers)]
}

func (s Schedule) window() Window {
	return Window{Days: s.Days, StartTime: s.StartTime, EndTime: s.EndTime, TimeZone: s.TimeZone}
}

// zone of a schedule that was validated.
func (s Schedule) zone() *time.Location {
	zone, err := loadZone(s.TimeZone)
	if err != nil {
		return time.UTC
	}
	return zone
}

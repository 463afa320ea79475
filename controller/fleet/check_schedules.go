package fleet

import (
	"fmt"
	"slices"
	"strings"

	"firebreakdns.io/firebreak/controller/run"
)

func (c *checker) checkSchedules() {
	names := map[string]string{}
	for i := range c.config.Schedules {
		s := &c.config.Schedules[i]
		at := fmt.Sprintf("schedules[%d]", i)
		wrong := s.Validate()
		c.field(at, wrong)
		if other, twice := names[s.Name]; twice {
			c.bad(at+".name", "%q is the name of %s (line %d) too: give each schedule its own", s.Name, other, c.lines[other])
		}
		names[s.Name] = at
		for j, name := range s.Servers {
			if !slices.ContainsFunc(c.config.Servers, func(x ServerConfig) bool { return x.Name == name }) {
				c.bad(fmt.Sprintf("%s.servers[%d]", at, j), "the fleet has no server %q: %s", name, DidYouMean(name, c.config.ServerNames()))
			}
		}
		c.checkNamed(at+".clients", s.Clients)
		c.checkNamed(at+".exclude", s.Exclude)
		s.Monitors = c.monitors(at+".monitors", s.Monitors)
		if wrong == nil {
			c.checkTimes(at, *s)
		}
	}
}

// checkNamed looks at whom a schedule names. A name may be one that a server
// learns from its own hosts file, so one that is not known is no error: until a
// server knows it, the schedule is refused each time.
func (c *checker) checkNamed(field string, list []string) {
	for j, name := range list {
		at := fmt.Sprintf("%s[%d]", field, j)
		if looksLikeAddress(name) {
			if _, err := ParsePrefix(name); err != nil {
				c.bad(at, "%v", err)
			}
			continue
		}
		key := strings.ToLower(name)
		if c.config.groups[key] != nil || c.config.names[key] != nil {
			continue
		}
		near := ""
		if w := nearest(name, append(sorted(c.config.names), sorted(c.config.groups)...)); w != "" {
			near = fmt.Sprintf("; did you mean %q?", w)
		}
		c.warn(at, "%q is no group and no name of this file: the schedule is refused each time, until a server has a client of that name%s", name, near)
	}
}

// checkTimes holds a schedule to the fleet's window: one that never has the time
// to finish inside it would be refused for ever.
func (c *checker) checkTimes(at string, s run.Schedule) {
	if w := c.config.Window; w != nil && w.Validate() == nil && !s.Fits(c.config.Fleet, w, run.DefaultTimings) {
		seconds := s.Spec("").Seconds
		c.bad(at, "it can never run: the fleet's window is %s, and at no time of the schedule is there room in it for a drill of %d s, which takes up to %.0f s until all is put back. Move one of the two",
			w, seconds, run.Span(seconds, run.DefaultTimings).Seconds())
	}
	if past := s.RunsPast(run.DefaultTimings); past != "" {
		c.warn(at, "%s", past)
	}
}

// warn notes what is taken, and is probably not what was meant.
func (c *checker) warn(field, format string, args ...any) {
	c.config.Warnings = append(c.config.Warnings, c.problem(field, format, args...))
}

package standalone

import (
	"context"
	"errors"
	"maps"
	"time"

	"firebreakdns.io/firebreak/controller/run"
)

// askSchedules is how often it is asked whether one is due: each is tried once
// a minute at most.
const askSchedules = 5 * time.Second

func (c *Controller) watchSchedules(ctx context.Context) {
	every(ctx, askSchedules, func() { c.trySchedules(ctx) })
}

// trySchedules asks every schedule whether it is due, and does what it says.
func (c *Controller) trySchedules(ctx context.Context) {
	config := c.newest()
	facts := c.current().Facts(c.now())
	others := c.others("", &facts)
	for _, s := range config.Schedules {
		if ctx.Err() != nil {
			return
		}
		before := c.memory(s.Name)
		try, after := run.Due(s, config.Fleet, others, before, c.now())
		if !c.remember(s.Name, before, after) {
			continue // it would be tried again and again after a restart
		}
		switch try.Kind {
		case run.TryStart:
			c.remember(s.Name, after, c.trySchedule(ctx, s, try, after))
		case run.TrySkip:
			c.audit.Warn("refused", "by", "schedule/"+s.Name, "server", try.Server, "chance", try.Chance, "reason", try.Reason, "message", try.Message)
			if err := c.refusedRun(s.Spec(try.Server), try.Reason, try.Message); err != nil {
				c.log.Error("a schedule's refusal cannot be kept", "schedule", s.Name, "error", err)
			}
			c.metrics.ended(run.Refusal)
		}
	}
}

func (c *Controller) trySchedule(ctx context.Context, s run.Schedule, try run.Try, m run.Memory) run.Memory {
	d, err := c.start(ctx, s.Spec(try.Server))
	if err == nil {
		return m.Started(d.id, c.now())
	}
	var no *refusal
	var unknown unresolved
	switch {
	case errors.As(err, &no):
		m = m.Refused(no.first.Reason, no.first.Message)
	case errors.As(err, &unknown):
		m = m.Refused(run.NoTargets, err.Error())
	default:
		m = m.Refused(run.MissedChance, err.Error())
	}
	c.log.Info("a schedule's try was refused; it is tried again in a minute", "schedule", s.Name, "reason", m.Reason, "message", m.Message)
	return m
}

func (c *Controller) memory(name string) run.Memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memories[name]
}

// remember keeps a schedule's memory, on disk where it changed.
func (c *Controller) remember(name string, before, after run.Memory) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before == after {
		return true
	}
	c.memories[name] = after
	if err := c.store.saveMemories(c.memories); err != nil {
		return false // the store has said so
	}
	return true
}

// rememberRuns makes good what a crash between a run's start and its being
// remembered lost.
func (c *Controller) rememberRuns(memories map[string]run.Memory) map[string]run.Memory {
	out := maps.Clone(memories)
	for _, r := range c.store.list() {
		spec := r.report.Spec
		m, known := out[spec.Schedule]
		if known && r.report.Outcome != run.Refusal && !m.Done && !m.Tried.IsZero() && !spec.Requested.Before(m.Tried) {
			out[spec.Schedule] = m.Started(spec.ID, spec.Requested)
		}
	}
	return out
}

package standalone

import (
	"context"
	"slices"
	"time"

	"firebreakdns.io/firebreak/controller/run"
)

// orphanFor is how long servers are looked at for what a run left behind whose
// file was set aside: longer than any drill and its recordings.
const orphanFor = 20 * time.Minute

// orphan is what a run left behind on a server's process.
type orphan struct {
	server, boot, drill string
	kind                run.ActionKind
	upstream            string // of the server, where that is what was taken away
}

// endOrphans ends on every server what belongs to runs whose file could not be
// trusted. They are known by the name of their file, and by nothing else: what
// another controller started is shown, not touched.
func (c *Controller) endOrphans(ctx context.Context) {
	if len(c.orphans) == 0 {
		return
	}
	if c.now().Sub(c.started) > orphanFor {
		c.orphans = nil
		return
	}
	f := c.current()
	facts := f.Facts(c.now())
	for _, s := range facts.Servers {
		if !s.Heard {
			continue
		}
		if d := s.State.Drill; d != nil && d.Ended == nil && slices.Contains(c.orphans, d.ID) {
			c.endOrphan(ctx, orphan{s.Name, s.State.BootID, d.ID, run.ActEnd, ""})
		}
		if o := s.State.Outage; o != nil && o.Ended == nil && slices.Contains(c.orphans, o.ID) {
			c.endOrphan(ctx, orphan{s.Name, s.State.BootID, o.ID, run.ActEnd, o.Address})
		}
		if r := s.State.Recording; r != nil && !r.Frozen && slices.Contains(c.orphans, r.Drill) {
			c.endOrphan(ctx, orphan{s.Name, s.State.BootID, r.Drill, run.ActUnrecord, ""})
		}
	}
}

// endOrphan ends one. What a server says of itself may be some seconds old, so
// what was ended is not asked for again; what failed is, and said when the
// answer is another one.
func (c *Controller) endOrphan(ctx context.Context, o orphan) {
	before, tried := c.orphansEnded[o]
	if tried && before == "" {
		return
	}
	r := c.current().Do(ctx, run.Action{Kind: o.kind, Server: o.server, BootID: o.boot, Drill: o.drill, Upstream: o.upstream})
	c.orphansEnded[o] = r.Error
	switch {
	case r.Error == "":
		c.audit.Info("ended what a run left behind whose file was set aside", "by", "controller", "run", o.drill, "server", o.server, "action", o.kind)
	case r.Error != before:
		c.audit.Warn("what a run left behind whose file was set aside cannot be ended; it is tried again", "by", "controller", "run", o.drill, "server", o.server, "action", o.kind, "error", r.Error)
	}
}

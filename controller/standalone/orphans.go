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
			c.endOrphan(ctx, run.Action{Kind: run.ActEnd, Server: s.Name, BootID: s.State.BootID, Drill: d.ID})
		}
		if o := s.State.Outage; o != nil && o.Ended == nil && slices.Contains(c.orphans, o.ID) {
			c.endOrphan(ctx, run.Action{Kind: run.ActEnd, Server: s.Name, BootID: s.State.BootID, Drill: o.ID, Upstream: o.Address})
		}
		if r := s.State.Recording; r != nil && !r.Frozen && slices.Contains(c.orphans, r.Drill) {
			c.endOrphan(ctx, run.Action{Kind: run.ActUnrecord, Server: s.Name, BootID: s.State.BootID, Drill: r.Drill})
		}
	}
}

func (c *Controller) endOrphan(ctx context.Context, a run.Action) {
	r := c.current().Do(ctx, a)
	c.audit.Info("ended what a run left behind whose file was set aside", "by", "controller", "run", a.Drill, "server", a.Server, "action", a.Kind, "error", r.Error)
}

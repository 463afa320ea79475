package standalone

import (
	"firebreakdns.io/firebreak/controller/run"
)

// runs are all runs, newest first: as they are now, also those whose last word
// is not on disk yet.
func (c *Controller) runs() []row {
	rows := c.store.list()
	for i := range rows {
		if d := c.find(rows[i].report.ID); d != nil {
			now := d.snapshot()
			rows[i] = rowOf(&now)
			rows[i].report.Unsaved = d.why()
		}
	}
	return rows
}

// report is the run as it is now.
func (d *drive) report() run.Report {
	now := d.snapshot()
	report := now.Report()
	report.Unsaved = d.why()
	return report
}

// why the run as it is now is not on disk; "" where it is.
func (d *drive) why() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unsaved
}

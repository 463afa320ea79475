package standalone

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Pages of lists.
const (
	drillsPage    = 50
	maxDrillsPage = 200
	clientsPage   = 1000
	maxClients    = 10000
)

func (c *Controller) postDrill(w http.ResponseWriter, r *http.Request, by who) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	server := r.PathValue("server")
	limits := run.DefaultLimits
	q := view.DrillRequest{Limits: &limits} // what limits leave out keeps its default
	if err := readBody(w, r, &q, false); err != nil {
		return err
	}
	switch {
	case by.role == viewer && q.DryRun:
		return forbidden("%q is a viewer, who may read: plans are for operators and assistants (api.roles)", by.name)
	case by.role != operator && !q.DryRun:
		return forbidden("%q is no operator: people start drills. An assistant may ask for a plan with \"dryRun\": true", by.name)
	}
	spec, err := specOf(server, q, by.name)
	if err != nil {
		return err
	}
	if q.DryRun {
		plan, err := c.plan(r.Context(), spec)
		if err != nil {
			return err
		}
		return answer(w, http.StatusOK, plan)
	}
	d, err := c.start(r.Context(), spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/v1/drills/"+d.id)
	return answer(w, http.StatusAccepted, d.report())
}

func (c *Controller) deleteDrill(w http.ResponseWriter, r *http.Request, by who) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	if by.role != operator {
		return forbidden("%q is no operator: only operators stop drills (api.roles)", by.name)
	}
	var q view.StopRequest
	if err := readBody(w, r, &q, true); err != nil {
		return err
	}
	stopped, found := c.stopDrill(r.PathValue("server"), run.StopWish{By: by.name, Why: q.Why})
	if !found {
		return noDrill(r.PathValue("server"))
	}
	return answer(w, http.StatusAccepted, stopped.report())
}

func noDrill(server string) error {
	return protocol.NewProblem(http.StatusNotFound, protocol.ReasonNotFound, "no drill of %q is on; those that were are under %s", server, view.PathDrills)
}

func (c *Controller) getDrill(w http.ResponseWriter, r *http.Request, _ who) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	if d := c.on(); d != nil {
		if now := d.report(); now.Server == r.PathValue("server") {
			return answer(w, http.StatusOK, now)
		}
	}
	return noDrill(r.PathValue("server"))
}

// number is a parameter between two bounds.
func number(q map[string]string, name string, without, least, most int) (int, error) {
	s, given := q[name]
	if !given {
		return without, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, badField(name, "%q: give a number from %d to %d", s, least, most)
	}
	return n, nil
}

func (c *Controller) getDrills(w http.ResponseWriter, r *http.Request, _ who) error {
	q, err := parameters(r, "limit", "before")
	if err != nil {
		return err
	}
	limit, err := number(q, "limit", drillsPage, 1, maxDrillsPage)
	if err != nil {
		return err
	}
	out := view.DrillList{Drills: []view.DrillRow{}}
	for _, x := range c.runs() {
		report := x.report
		if before := q["before"]; before != "" && report.ID >= before {
			continue
		}
		if len(out.Drills) == limit {
			out.Next = out.Drills[limit-1].ID
			break
		}
		out.Drills = append(out.Drills, view.DrillRow{
			ID: report.ID, Server: report.Server, Phase: report.Phase, Outcome: report.Outcome, Reason: report.Reason,
			Upstream: report.Spec.Upstream, Mode: report.Spec.Mode, Seconds: report.Spec.Seconds, Verdicts: report.Verdicts, Coverage: report.Coverage, Lost: report.Lost,
			By: report.Spec.By, Schedule: report.Spec.Schedule, Requested: report.Spec.Requested, Unsaved: report.Unsaved,
		})
	}
	return answer(w, http.StatusOK, out)
}

// report of a run, from memory while it is driven, else from its file.
func (c *Controller) report(id string) (run.Report, error) {
	if d := c.find(id); d != nil {
		return d.report(), nil
	}
	if !c.store.has(id) {
		return run.Report{}, protocol.NewProblem(http.StatusNotFound, protocol.ReasonNotFound,
			"there is no drill %q: the last %d are kept, %s lists them", id, keepRuns, view.PathDrills)
	}
	old, err := c.store.read(id)
	if err != nil {
		c.log.Error("a report cannot be read", "run", id, "error", err)
		return run.Report{}, err
	}
	return old.Report(), nil
}

func (c *Controller) getReport(w http.ResponseWriter, r *http.Request, _ who) error {
	q, err := parameters(r, "clientsFrom", "clientsLimit")
	if err != nil {
		return err
	}
	from, err := number(q, "clientsFrom", 0, 0, 1<<30)
	if err != nil {
		return err
	}
	limit, err := number(q, "clientsLimit", clientsPage, 0, maxClients)
	if err != nil {
		return err
	}
	report, err := c.report(r.PathValue("id"))
	if err != nil {
		return err
	}
	from = min(from, len(report.Clients))
	report.Clients = report.Clients[from:min(from+limit, len(report.Clients))]
	return answer(w, http.StatusOK, report)
}

func (c *Controller) getHTML(w http.ResponseWriter, r *http.Request, _ who) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	report, err := c.report(r.PathValue("id"))
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := view.HTML(&page, &report, view.Style{Now: c.now()}); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", view.HTMLPolicy())
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(page.Bytes()) // the caller went away: nobody to tell
	return nil
}

func (c *Controller) getServers(w http.ResponseWriter, r *http.Request, _ who) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	f := c.current()
	facts := f.Facts(c.now())
	out := view.ServerList{Fleet: f.Config().Fleet, Enabled: c.newest().Drills.Enabled}
	for i, s := range facts.Servers {
		row := view.Server{
			Name: s.Name, Control: f.Config().Servers[i].Control, Heard: s.Heard, Error: s.Error, Version: s.State.Version,
			BootID: s.State.BootID, Features: s.State.Features, Ready: s.Ready, OffsetMs: s.OffsetMs, OffsetErr: s.OffsetErr, Drill: s.State.Drill,
			Upstreams: s.State.Upstreams, Outage: s.State.Outage,
			LastAnswer: known(s.LastAnswer), LastProbe: known(s.LastProbe),
		}
		if row.Error == "" && s.ProbeError != "" && (s.State.Drill == nil || s.State.Drill.Ended != nil) {
			row.Error = "our own DNS question was not answered: " + s.ProbeError
		}
		for _, a := range s.DNS {
			row.DNS = append(row.DNS, a.String())
		}
		out.Servers = append(out.Servers, row)
	}
	return answer(w, http.StatusOK, out)
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

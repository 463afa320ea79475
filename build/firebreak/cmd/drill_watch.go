package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"firebreakdns.io/firebreak/build/firebreak/client"
	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
)

const (
	// pollEvery is how often a run is looked at.
	pollEvery = 500 * time.Millisecond
	// patience with a controller that does not answer while it is watched: it
	// may be restarting, and takes up the run where it was.
	patience = time.Minute
)

func (a *app) drillWatch() *cobra.Command {
	return &cobra.Command{
		Use:   "watch [DRILL]",
		Short: "Watch a drill to its end, then show its report",
		Long: `Watch a drill, by default the one that is on: its phase, how long it still
takes, and the clients as they fail over. Where there is no terminal, one line
for each thing that happens. At its end the report is shown, and its outcome is
the exit code. Ctrl-C leaves the drill running.

` + exitHelp,
		Example:           a.examples("firebreak drill watch\nfirebreak drill watch 20261130-031500-ns1-k3v9 -o json > report.json"),
		Args:              atMostOne("drill"),
		ValidArgsFunction: a.completeDrill,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			id := ""
			if len(args) == 1 {
				id = args[0]
			} else {
				row, err := running(cmd.Context(), c)
				if err != nil {
					return err
				}
				id = row.ID
			}
			r, err := c.Report(cmd.Context(), id)
			if err != nil {
				return a.noReport(err, id)
			}
			return a.watch(cmd.Context(), c, r)
		},
	}
}

// watch follows a run to its end and shows its report.
func (a *app) watch(ctx context.Context, c *client.Client, r *run.Report) error {
	r, err := a.follow(ctx, c, r)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			fmt.Fprintf(a.Err, "The drill goes on; it ends by itself.\n  stop it now:     %s drill stop %s\n  watch it again:  %s drill watch %s\n", a.program, r.Server, a.program, r.ID)
			return &silent{exitInterrupted}
		}
		return err
	}
	if err := a.show(r, c.Now()); err != nil {
		return err
	}
	return outcome(r.Outcome)
}

// follow shows a run while it is on, and returns its last report.
func (a *app) follow(ctx context.Context, c *client.Client, r *run.Report) (*run.Report, error) {
	var progress progress = &lines{a: a}
	if terminal(a.Err) && a.Env("TERM") != "dumb" {
		progress = &frames{a: a}
	}
	defer progress.end()
	progress.show(r, c.Now())
	var silentSince time.Time
	for !r.Phase.Final() {
		if !pause(ctx, pollEvery) {
			return r, ctx.Err()
		}
		next, err := c.Report(ctx, r.ID)
		switch {
		case err == nil:
			r, silentSince = next, time.Time{}
		case ctx.Err() != nil:
			return r, ctx.Err()
		case !client.Temporary(err):
			return r, err
		case silentSince.IsZero():
			silentSince = time.Now()
		case time.Since(silentSince) > patience:
			return r, fmt.Errorf("%w. The drill goes on without being watched, and ends by itself: `%s drill report %s` has its outcome", err, a.program, r.ID)
		}
		progress.show(r, c.Now())
	}
	return r, nil
}

// progress is how a run is shown while it is on.
type progress interface {
	show(r *run.Report, now time.Time)
	end()
}

// lines say each thing once, for logs and pipes.
type lines struct {
	a      *app
	before *run.Report
}

func (l *lines) show(r *run.Report, now time.Time) {
	s := l.a.style(l.a.Err)
	s.Now = now
	for _, line := range view.Changes(l.before, r, s) {
		fmt.Fprintln(l.a.Err, line)
	}
	l.before = r
}

func (l *lines) end() {}

// running is the run that is on.
func running(ctx context.Context, c *client.Client) (view.DrillRow, error) {
	l, err := c.Drills(ctx, 20, "")
	if err != nil {
		return view.DrillRow{}, err
	}
	for _, d := range l.Drills {
		if !d.Phase.Final() {
			return d, nil
		}
	}
	return view.DrillRow{}, errors.New("no drill is on; `firebreak drill list` shows those that were")
}

// newest is the ID of the newest run.
func newest(ctx context.Context, c *client.Client) (string, error) {
	l, err := c.Drills(ctx, 1, "")
	if err != nil {
		return "", err
	}
	if len(l.Drills) == 0 {
		return "", errors.New("no drill has been run yet: there is no report")
	}
	return l.Drills[0].ID, nil
}

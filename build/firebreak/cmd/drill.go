package cmd

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
)

func (a *app) drill() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Plan, start, watch and stop drills, and read their reports",
		Long: `A drill takes one DNS server away from chosen clients for 15 to 300 seconds,
watches what happens, puts it back, and reports client by client. With --upstream
it takes one upstream away from a server that asks upstreams (a node cache), and
reports how soon the server did without it and what its clients felt.

It stops by itself when clients are hurt: errors or retries rising on the other
servers, a monitored name that cannot be looked up, no healthy server left.

` + exitHelp,
		Example: a.examples(`
			firebreak drill plan ns1 --everyone
			firebreak drill start ns1 --everyone --exclude 192.0.2.5
			firebreak drill start node1 --upstream 10.0.0.53
			firebreak drill watch
			firebreak drill stop
			firebreak drill list
			firebreak drill report -o wide`),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.drillPlan(), a.drillStart(), a.drillWatch(), a.drillStop(), a.drillReport(), a.drillList())
	return cmd
}

func (a *app) drillPlan() *cobra.Command {
	var ask request
	cmd := &cobra.Command{
		Use:   "plan SERVER",
		Short: "Say what a drill would do and for whom; nothing is changed",
		Long: `Ask every guard, list the clients that would be drilled, and warn of those that
have no other server. Nothing is changed. Ends with exit code 5 where the drill
would be refused.`,
		Example: a.examples(`
			firebreak drill plan ns1 --everyone
			firebreak drill plan ns1 --clients 192.0.2.0/24,laptop --duration 30s
			firebreak drill plan ns1 --clients printers -o json
			firebreak drill plan node1 --upstream 10.0.0.53`),
		Args:              oneArg("server"),
		ValidArgsFunction: a.completeServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := ask.body(a)
			if err != nil {
				return err
			}
			body.Terminal = true // who only plans owes no reason
			c, err := a.connect()
			if err != nil {
				return err
			}
			return a.plan(cmd.Context(), c, args[0], body)
		},
	}
	ask.flags(cmd)
	return cmd
}

func (a *app) drillStop() *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:   "stop [SERVER | DRILL]",
		Short: "Stop the drill that is on; everything is put back at once",
		Long: `Stop the drill of a server, or the drill with that ID. Without either, the one
that is on. Stopping one that is over already changes nothing.`,
		Example: a.examples(`
			firebreak drill stop
			firebreak drill stop ns1 --why "phones are ringing"`),
		Args:              atMostOne("server or drill"),
		ValidArgsFunction: a.completeServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			var server string
			switch {
			case len(args) == 0:
				row, err := running(ctx, c)
				if err != nil {
					return err
				}
				server = row.Server
			case isID(args[0]):
				r, err := c.Report(ctx, args[0])
				if err != nil {
					return a.noReport(err, args[0])
				}
				if r.Phase.Final() {
					fmt.Fprintf(a.Err, "Drill %s is over already.\n", r.ID)
					return a.show(r, c.Now())
				}
				server = r.Server
			default:
				server = args[0]
			}
			r, err := c.Stop(ctx, server, why)
			if err != nil {
				return a.notFound(err, "no drill of %s is on", server)
			}
			fmt.Fprintf(a.Err, "Stopping drill %s: %s is being put back. `%s drill watch %s` shows it.\n", r.ID, r.Server, a.program, r.ID)
			if a.global.output == "table" || a.global.output == "wide" {
				return nil
			}
			return a.show(r, c.Now())
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "why, for the report and the audit log")
	return cmd
}

func (a *app) drillReport() *cobra.Command {
	var page string
	cmd := &cobra.Command{
		Use:   "report [DRILL]",
		Short: "Show a drill's report: who failed over, how fast, who is stuck",
		Long: `Show the report of a drill, of the newest one if none is named. Its outcome is
the exit code. As a page (-o html, or --html FILE) it is one file that needs
nothing else: it can be mailed, filed and printed.

` + exitHelp,
		Example: a.examples(`
			firebreak drill report
			firebreak drill report 20261130-031500-ns1-k3v9 -o wide
			firebreak drill report -o html > report.html
			firebreak drill report --html report.html
			firebreak drill report -o json | jq '.clients[] | select(.verdict == "stuck")'`),
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
			} else if id, err = newest(cmd.Context(), c); err != nil {
				return err
			}
			r, err := c.Report(cmd.Context(), id)
			if err != nil {
				return a.noReport(err, id)
			}
			if page != "" {
				if err := a.savePage(page, r); err != nil {
					return err
				}
			} else if err := a.show(r, c.Now()); err != nil {
				return err
			}
			return outcome(r.Outcome)
		},
	}
	cmd.Flags().StringVar(&page, "html", "", "write the page to this file")
	_ = cmd.MarkFlagFilename("html", "html")
	return cmd
}

// noReport says that there is no such drill, if that is it.
func (a *app) noReport(err error, id string) error {
	return a.notFound(err, "there is no drill %q: the last 50 are kept", id)
}

// savePage writes the page beside its name first, so that nobody opens half of one.
func (a *app) savePage(file string, r *run.Report) error {
	part := file + ".part"
	f, err := os.Create(part)
	if err != nil {
		return err
	}
	defer os.Remove(part) // gone already where all went well
	if err := view.HTML(f, r, view.Style{Location: a.style(nil).Location}); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(part, file); err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "Wrote %s.\n", file)
	return nil
}

func (a *app) drillList() *cobra.Command {
	var limit int
	var before string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the drills that were, newest first",
		Args:    noArgs,
		Example: a.examples("firebreak drill list\nfirebreak drill list -o wide --limit 50"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit must be 1 or more")
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			l, err := c.Drills(cmd.Context(), limit, before)
			if err != nil {
				return err
			}
			return a.show(l, c.Now())
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "how many at most")
	cmd.Flags().StringVar(&before, "before", "", "those older than the drill with this ID")
	return cmd
}

// isID tells a run's ID (20261130-031500-ns1-k3v9) from a server's name.
func isID(s string) bool {
	day, rest, ok := strings.Cut(s, "-")
	clock, _, more := strings.Cut(rest, "-")
	return ok && more && digits(day, 8) && digits(clock, 6)
}

func digits(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789") == ""
}

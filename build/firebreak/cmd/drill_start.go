package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"firebreakdns.io/firebreak/build/firebreak/client"
	"firebreakdns.io/firebreak/controller/view"
)

func (a *app) drillStart() *cobra.Command {
	var ask request
	var dryRun, yes, watch, noWatch bool
	cmd := &cobra.Command{
		Use:   "start SERVER",
		Short: "Take a server away from its clients for a while, or an upstream from a server",
		Long: `Start a drill and watch it to its end. At a terminal, what would happen is shown
first and has to be confirmed; elsewhere --reason is needed instead.

Ctrl-C while watching leaves the drill running: it ends by itself.

` + exitHelp,
		Example: a.examples(`
			firebreak drill start ns1 --clients 192.0.2.17 --duration 30s
			firebreak drill start ns1 --everyone --exclude 192.0.2.5,phones
			firebreak drill start ns1 --everyone --reason "monthly check" --no-watch -o name
			firebreak drill start ns1 --everyone --reason "CI" -o json > report.json
			firebreak drill start node1 --upstream 10.0.0.53 --mode down --duration 30s`),
		Args:              oneArg("server"),
		ValidArgsFunction: a.completeServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := ask.body(a)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("watch") && watch && noWatch {
				return usage("--watch and --no-watch cannot both be")
			}
			if !dryRun && body.Reason == "" && !body.Terminal {
				return usage("say why with --reason: nobody sits at a terminal here who could be asked")
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			if dryRun {
				return a.plan(cmd.Context(), c, args[0], body)
			}
			if body.Terminal && !yes {
				if err := a.confirm(cmd.Context(), c, args[0], body); err != nil {
					return err
				}
			}
			return a.start(cmd.Context(), c, args[0], body, watch && !noWatch)
		},
	}
	ask.flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&dryRun, "dry-run", false, "only say what would happen: the same as plan")
	f.BoolVar(&yes, "yes", false, "do not ask")
	f.BoolVar(&watch, "watch", true, "watch it to its end")
	f.BoolVar(&noWatch, "no-watch", false, "start it and leave; 'drill report' has its outcome later")
	return cmd
}

// plan shows what would happen; refused ends with the code of a refusal.
func (a *app) plan(ctx context.Context, c *client.Client, server string, body view.DrillRequest) error {
	p, err := c.Plan(ctx, server, body)
	if err != nil {
		return err
	}
	if err := a.show(p, c.Now()); err != nil {
		return err
	}
	if !p.Allowed {
		return &silent{refusal(p.Checks)}
	}
	return nil
}

// confirm shows the plan in short and asks.
func (a *app) confirm(ctx context.Context, c *client.Client, server string, body view.DrillRequest) error {
	p, err := c.Plan(ctx, server, body)
	if err != nil {
		return err
	}
	if !p.Allowed {
		return &client.Refused{Checks: p.Checks}
	}
	person := a.person()
	fmt.Fprint(person, view.PlanSummary(p, a.style(person)))
	fmt.Fprint(person, "Start it? [y/N] ")
	answer, err := readLine(ctx, a)
	if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	fmt.Fprintln(person, "Not started; nothing was changed.")
	return &silent{exitError}
}

// readLine waits for a line, or for Ctrl-C.
func readLine(ctx context.Context, a *app) (string, error) {
	type answer struct {
		text string
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		text, err := bufio.NewReader(a.In).ReadString('\n')
		got <- answer{text, err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.Err)
		return "", ctx.Err()
	case x := <-got:
		if x.err != nil && x.text == "" {
			return "", errors.New("no answer; nothing was changed")
		}
		return x.text, nil
	}
}

func (a *app) start(ctx context.Context, c *client.Client, server string, body view.DrillRequest, watch bool) error {
	r, err := c.Start(ctx, server, body)
	if err != nil {
		if client.Temporary(err) {
			return fmt.Errorf("%w. Whether the drill was started is not known: `%s drill list` says", err, a.program)
		}
		return err
	}
	if watch {
		return a.watch(ctx, c, r)
	}
	fmt.Fprintf(a.Err, "Started drill %s. Watch it: `%s drill watch %s`. Stop it: `%s drill stop %s`.\n", r.ID, a.program, r.ID, a.program, r.Server)
	if a.global.output == "table" || a.global.output == "wide" {
		return nil // there is nothing in the report yet
	}
	return a.show(r, c.Now())
}

package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"firebreakdns.io/firebreak/build/firebreak/client"
	"firebreakdns.io/firebreak/build/firebreak/demo"
	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
)

func (a *app) demo() *cobra.Command {
	var o demo.Options
	var upstream bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a whole drill on this machine, in a minute; no root, no cluster",
		Long: `Start three real DNS servers, a controller and twenty clients on loopback, take
one server away for a few seconds, and hold what the report says of each client
against what the client itself saw. Everything is taken down again; the report
stays as a page.

With -o json, yaml or wide the report goes to standard output and the story to
standard error. The exit code is 0 if every verdict is what it should be, although
the drill itself fails: one client is stuck on purpose.

With --upstream it is another story: a node cache loses one of its two upstreams,
and no client is to notice. The exit code is 0 if none did.`,
		Example: a.examples("firebreak demo\nfirebreak demo --html /tmp/report.html\nfirebreak demo -o json | jq .verdicts\nfirebreak demo --upstream"),
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := a.global.output != string(view.FormatTable)
			o.Story = a.Out
			if report {
				o.Story = a.Err
			}
			o.Color = a.style(o.Story).Color
			if terminal(o.Story) {
				o.Width, _ = size(o.Story)
			}
			o.Follow = func(ctx context.Context, c *client.Client, r *run.Report) (*run.Report, error) {
				return a.follow(ctx, c, r)
			}
			show := demo.Run
			if upstream {
				show = demo.RunUpstream
			}
			r, err := show(cmd.Context(), o)
			if r != nil && report {
				if err := a.show(r, a.style(a.Out).Now); err != nil {
					return err
				}
			}
			if errors.Is(err, context.Canceled) {
				fmt.Fprintln(a.Err, "Interrupted; everything was taken down again.")
				return &silent{exitInterrupted}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Page, "html", "", "where the report's page goes (default \"./"+demo.DefaultPage+"\")")
	f.BoolVar(&o.Keep, "keep", false, "keep the folder with configuration, certificates and logs")
	f.BoolVar(&upstream, "upstream", false, "show how an upstream dies behind a node cache")
	_ = cmd.MarkFlagFilename("html", "html")
	return cmd
}

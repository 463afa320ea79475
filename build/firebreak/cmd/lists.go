package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"firebreakdns.io/firebreak/build/firebreak/client"
)

func (a *app) servers() *cobra.Command {
	return &cobra.Command{
		Use:     "servers",
		Short:   "Show the fleet: who is heard, ready, and drilled right now",
		Args:    noArgs,
		Example: a.examples("firebreak servers\nfirebreak servers -o wide"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return list(cmd.Context(), a, (*client.Client).Servers)
		},
	}
}

func (a *app) clients() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "clients",
		Short:   "Show who asks: the clients of all servers",
		Args:    noArgs,
		Example: a.examples("firebreak clients\nfirebreak clients -o json\nfirebreak clients affinity"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return list(cmd.Context(), a, (*client.Client).Clients)
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "affinity",
		Short: "Show who asks which server, and who has no second one",
		Long: `Show each client's queries of the last 7 days by server. Who was answered by one
server only comes first: those are the clients that a drill of it may find stuck.`,
		Args:    noArgs,
		Example: a.examples("firebreak clients affinity"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return list(cmd.Context(), a, (*client.Client).Affinity)
		},
	})
	return cmd
}

// list asks for a list and shows it.
func list[T any](ctx context.Context, a *app, ask func(*client.Client, context.Context) (*T, error)) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	v, err := ask(c, ctx)
	if err != nil {
		return err
	}
	return a.show(v, c.Now())
}

// completeServer offers the fleet's servers, if the controller answers at once.
func (a *app) completeServer(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, ctx, cancel := a.completing(cmd)
	defer cancel()
	if c == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	l, err := c.Servers(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, s := range l.Servers {
		names = append(names, s.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeDrill offers the newest runs.
func (a *app) completeDrill(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, ctx, cancel := a.completing(cmd)
	defer cancel()
	if c == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	l, err := c.Drills(ctx, 20, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	for _, d := range l.Drills {
		ids = append(ids, cobra.CompletionWithDesc(d.ID, d.Server+" "+string(d.Outcome)))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completing is the controller for a completion, which must not keep a shell waiting.
func (a *app) completing(cmd *cobra.Command) (*client.Client, context.Context, context.CancelFunc) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	c, err := a.connect()
	if err != nil {
		return nil, ctx, cancel
	}
	return c, ctx, cancel
}

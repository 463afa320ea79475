package cmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"firebreakdns.io/firebreak/build/firebreak/client"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/version"
)

// Environment variables that stand in for flags.
const (
	envController = "FIREBREAK_CONTROLLER"
	envCerts      = "FIREBREAK_CERTS"
	envNoColor    = "NO_COLOR"
)

// app is one run of the command line.
type app struct {
	Streams
	program string // as people call it: firebreak, or kubectl firebreak
	global  struct {
		controller, certs, ca, cert, key string
		output                           string
		noColor                          bool
		timeout                          time.Duration
	}
}

// Main runs the command line and returns its exit code.
func Main(s Streams) int {
	ctx, stop := interruptible()
	defer stop()
	return Run(ctx, s)
}

// Run is Main until ctx ends.
func Run(ctx context.Context, s Streams) int {
	a := &app{Streams: s, program: called(s.Args[0])}
	root := a.root()
	root.SetArgs(s.Args[1:])
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	var quiet *silent
	if err != nil && !errors.As(err, &quiet) {
		a.explain(err)
	}
	return code(err)
}

// called is the program as people call it: kubectl runs its plugin
// kubectl-firebreak as "kubectl firebreak".
func called(arg0 string) string {
	name := strings.TrimSuffix(filepath.Base(arg0), ".exe")
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + plugin
	}
	return "firebreak"
}

// explain says what went wrong.
func (a *app) explain(err error) {
	var refused *client.Refused
	if errors.As(err, &refused) {
		fmt.Fprintln(a.Err, "The drill was refused; nothing was changed.")
		fmt.Fprint(a.Err, view.Refused(refused.Checks, a.style(a.Err)))
		return
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	fmt.Fprintf(a.Err, "%s: %v\n", a.program, err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   strings.ReplaceAll(a.program, " ", "-"),
		Short: "DNS failover, tried rather than guessed",
		Long: `Firebreak takes one DNS server away from chosen clients for 15 to 300 seconds,
and reports client by client who failed over, how fast, and who is stuck.

New here? Run ` + "`" + a.program + ` demo` + "`" + `: it shows a whole drill on this machine, in a minute.

` + exitHelp,
		Example: a.examples(`
			firebreak demo
			firebreak servers
			firebreak drill plan ns1 --everyone
			firebreak drill start ns1 --clients 192.0.2.17 --duration 30s --reason "new resolver on the laptop"
			firebreak drill report -o html > report.html`),
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: a.program},
		Args:              noArgs,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Version:           version.String(),
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.check(cmd) },
	}
	root.SetVersionTemplate("firebreak {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%s; `%s --help` says how", flagProblem(err), cmd.CommandPath())
	})
	g := &a.global
	flags := root.PersistentFlags()
	flags.StringVar(&g.controller, "controller", a.Env(envController), "the controller: https://HOST:PORT or unix:///PATH (or "+envController+")")
	flags.StringVar(&g.certs, "certs", a.Env(envCerts), "folder with your ca.crt, tls.crt and tls.key (or "+envCerts+")")
	flags.StringVar(&g.ca, "ca", "", "the CA's certificate, where it is not in --certs")
	flags.StringVar(&g.cert, "cert", "", "your certificate, where it is not in --certs")
	flags.StringVar(&g.key, "key", "", "its private key, where it is not in --certs")
	flags.StringVarP(&g.output, "output", "o", "table", "table, wide, json, yaml or name (reports: html too)")
	flags.BoolVar(&g.noColor, "no-color", false, "no colors (or "+envNoColor+")")
	flags.DurationVar(&g.timeout, "timeout", 10*time.Second, "how long one call may take")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "wide", "json", "yaml", "name", "html"}, cobra.ShellCompDirectiveNoFileComp))
	_ = root.MarkPersistentFlagDirname("certs")
	root.AddCommand(a.drill(), a.clients(), a.servers(), a.certs(), a.demo(), a.version())
	return root
}

// check is what holds for every command.
func (a *app) check(cmd *cobra.Command) error {
	page := cmd.Name() == "report"
	if _, err := view.ParseFormat(a.global.output, page); err != nil {
		return usage("-o: %v", err)
	}
	if a.global.timeout <= 0 {
		return usage("--timeout must be more than nothing, such as 10s")
	}
	return nil
}

// connect is the controller to ask.
func (a *app) connect() (*client.Client, error) {
	g := a.global
	return client.New(client.Options{
		Controller: g.controller, Certs: g.certs, CA: g.ca, Cert: g.cert, Key: g.key,
		Timeout: g.timeout, Agent: "firebreak/" + version.String(),
	})
}

// style of what is written to a stream.
func (a *app) style(stream any) view.Style {
	return view.Style{
		Color:    !a.global.noColor && a.Env(envNoColor) == "" && a.Env("TERM") != "dumb" && terminal(stream),
		Location: time.Local,
		Now:      time.Now(),
	}
}

// show writes v in the format asked for; now is the controller's clock.
func (a *app) show(v any, now time.Time) error {
	s := a.style(a.Out)
	s.Now = now
	return view.Write(a.Out, v, view.Format(a.global.output), s)
}

// examples are indented as cobra shows them, and say the program's name as it is called.
func (a *app) examples(text string) string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "firebreak "); ok {
			line = a.program + " " + rest
		}
		lines = append(lines, "  "+line)
	}
	return strings.Join(lines, "\n")
}

// noArgs and atMost are cobra's, but tell how it is done.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return usage("no command %q; `%s --help` lists them", args[0], cmd.CommandPath())
	}
	return usage("nothing known of %q; `%s --help` says how", args[0], cmd.CommandPath())
}

func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage("say which %s: %s %s", what, cmd.CommandPath(), strings.ToUpper(what))
		}
		return nil
	}
}

func atMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage("one %s at most; `%s --help` says how", what, cmd.CommandPath())
		}
		return nil
	}
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"firebreakdns.io/firebreak/test/cluster/lab"
)

// command is one of the things that the program does.
type command struct {
	// words name it, and args says what follows them: a word for each argument,
	// the last with dots if more may follow.
	words, args, help string
	// flags are the names of the flags that it takes.
	flags []string
	// do gets what follows the words and the flags.
	do func(ctx context.Context, f flags, args []string) error
}

// flags are the flags of all commands.
type flags struct {
	name       string
	nodes      int
	foreground bool
}

func commands() []command {
	// What takes no name has nothing to do with a cluster, and needs no root.
	name, none := []string{"name"}, []string(nil)
	return []command{
		{"build", "", "build the programs into the cache folder (up does so too)", none, build},
		{"up", "", "start a cluster that stays until down", []string{"name", "nodes", "foreground"}, up},
		{"down", "", "end a cluster and remove all that is left of it", name, down},
		{"status", "", "show all clusters, and what dead ones have left", none, status},
		{"kubeconfig", "", "print the name of the administrator's kubeconfig", name, printKubeconfig},
		{"logs", "", "print the name of the folder with the logs", name, printLogs},
		{"exec", "MACHINE COMMAND...", "run a command on a node, or on the machine called control", name, execute},
		{"node add", "", "add a node", name, nodeAdd},
		{"node kill", "NODE", "let a node die as a machine does", name, nodeKill},
		{"node revive", "NODE", "switch a killed node on again", name, nodeRevive},
		{"node remove", "NODE", "kill a node and remove it for good", name, nodeRemove},
		{"image", "REF FILE", "make an image of a static program and load it on all nodes", name, image},
		{"client", "", "load the image localhost/client:1, with glibc, musl and busybox", name, client},
		{"packages", "", "print the Debian packages that a cluster needs", none, packages},
		{"pin", "", "after a change in lab/versions.go: resolve the programs' modules anew", none, pin},
	}
}

// misuse is an error in how a command was called. It says how to.
type misuse struct{ error }

// run finds the command that the words name and does it.
func run(ctx context.Context, words []string) error {
	if len(words) > 0 && slices.Contains([]string{"help", "-h", "-help", "--help"}, words[0]) {
		fmt.Print(usage())
		return nil
	}
	for _, c := range commands() {
		names := strings.Fields(c.words)
		if len(words) < len(names) || !slices.Equal(words[:len(names)], names) {
			continue
		}
		f, args, err := c.parse(words[len(names):])
		if errors.Is(err, flag.ErrHelp) {
			fmt.Print(c.usage())
			return nil
		}
		if err != nil {
			return err
		}
		if slices.Contains(c.flags, "name") || c.words == "status" {
			if err := lab.NeedRoot(); err != nil {
				return err
			}
		}
		return c.do(ctx, f, args)
	}
	if len(words) == 0 {
		return misuse{fmt.Errorf("no command\n%s", usage())}
	}
	return misuse{fmt.Errorf("no such command: %s\n%s", strings.Join(words, " "), usage())}
}

// parse reads a command's flags and arguments, and takes neither more nor less
// than the command does: what it would ignore was meant in another way.
func (c command) parse(words []string) (flags, []string, error) {
	var f flags
	set := c.flagSet(&f)
	if err := set.Parse(words); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			err = misuse{fmt.Errorf("%w\n%s", err, c.usage())}
		}
		return f, nil, err
	}
	want, got := len(strings.Fields(c.args)), set.NArg()
	if strings.HasSuffix(c.args, "...") {
		got = min(got, want)
	}
	if got > want {
		return f, nil, misuse{fmt.Errorf("too much: %s; flags come before arguments\n%s", strings.Join(set.Args()[want:], " "), c.usage())}
	}
	if got < want {
		return f, nil, misuse{fmt.Errorf("too little: %s is missing\n%s", strings.Join(strings.Fields(c.args)[got:], " "), c.usage())}
	}
	return f, set.Args(), nil
}

// flagSet has the flags that the command takes.
func (c command) flagSet(f *flags) *flag.FlagSet {
	set := flag.NewFlagSet(c.words, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, name := range c.flags {
		switch name {
		case "name":
			set.StringVar(&f.name, name, "dev", "the cluster's name")
		case "nodes":
			set.IntVar(&f.nodes, name, 3, "how many nodes to start; with 0, only the control plane")
		case "foreground":
			set.BoolVar(&f.foreground, name, false, "wait for Ctrl-C, and let the cluster end with it, also when the command is killed")
		}
	}
	return set
}

func (c command) usage() string {
	var out strings.Builder
	takes := ""
	if len(c.flags) > 0 {
		takes = " [flags]"
	}
	fmt.Fprintf(&out, "usage: go run ./test/cluster %s\n%s\n", strings.TrimSpace(c.words+takes+" "+c.args), c.help)
	set := c.flagSet(new(flags))
	set.SetOutput(&out)
	set.PrintDefaults()
	return out.String()
}

func usage() string {
	var out strings.Builder
	fmt.Fprintln(&out, "usage: go run ./test/cluster COMMAND [flags] [arguments]; COMMAND --help tells the flags")
	for _, c := range commands() {
		fmt.Fprintf(&out, "  %-24s %s\n", strings.TrimSpace(c.words+" "+c.args), c.help)
	}
	return out.String()
}

func build(ctx context.Context, _ flags, _ []string) error {
	_, err := lab.Build(ctx, os.Stdout)
	return err
}

func up(ctx context.Context, f flags, _ []string) error {
	ctx, stop := untilGoEnds(ctx)
	defer stop()
	// Nobody may be left to read what is said: that is no reason to die before
	// the cluster is down.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	c, err := lab.Up(ctx, lab.Options{Name: f.name, Nodes: f.nodes, Detached: !f.foreground, Out: os.Stdout})
	if err != nil {
		return err
	}
	fmt.Printf("export KUBECONFIG=%s\n", c.KubeconfigPath())
	if !f.foreground {
		return nil
	}
	<-ctx.Done()
	fmt.Printf("%s: taking it down: %v\n", f.name, context.Cause(ctx))
	return c.Down()
}

func down(ctx context.Context, f flags, _ []string) error { return lab.Down(ctx, f.name) }

func status(ctx context.Context, _ flags, _ []string) error {
	list, err := lab.List(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Println("no cluster")
	}
	for _, s := range list {
		word := "not up"
		if s.Up {
			word = "up"
		}
		fmt.Printf("%s: %s, %d MiB; %s\n", s.Name, word, s.Memory>>20, s.Owner)
		for _, line := range slices.Concat(s.Machines, s.Left) {
			fmt.Println("  " + line)
		}
	}
	return nil
}

func printKubeconfig(_ context.Context, f flags, _ []string) error {
	c, err := lab.Open(f.name)
	if err == nil {
		fmt.Println(c.KubeconfigPath())
	}
	return err
}

func printLogs(_ context.Context, f flags, _ []string) error {
	c, err := lab.Open(f.name)
	if err == nil {
		fmt.Println(c.Logs())
	}
	return err
}

// commandFailed is the error of a command that ran on a machine.
type commandFailed struct{ error }

func (f commandFailed) Unwrap() error { return f.error }

func execute(ctx context.Context, f flags, args []string) error {
	c, err := lab.Open(f.name)
	if err != nil {
		return err
	}
	cmd, err := c.Command(ctx, args[0], args[1:]...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return commandFailed{err}
	}
	return nil
}

func nodeAdd(ctx context.Context, f flags, _ []string) error {
	c, err := lab.Open(f.name)
	if err != nil {
		return err
	}
	name, err := c.AddNode(ctx, lab.NodeOptions{})
	if err == nil {
		fmt.Printf("%s: %s is Ready\n", f.name, name)
	}
	return err
}

// withNode does something with the node that the arguments name.
func withNode(f flags, args []string, do func(c *lab.Cluster, node string) error) error {
	c, err := lab.Open(f.name)
	if err != nil {
		return err
	}
	return do(c, args[0])
}

func nodeKill(ctx context.Context, f flags, args []string) error {
	return withNode(f, args, func(c *lab.Cluster, node string) error { return c.KillNode(ctx, node) })
}

func nodeRevive(ctx context.Context, f flags, args []string) error {
	return withNode(f, args, func(c *lab.Cluster, node string) error { return c.ReviveNode(ctx, node) })
}

func nodeRemove(ctx context.Context, f flags, args []string) error {
	return withNode(f, args, func(c *lab.Cluster, node string) error { return c.RemoveNode(ctx, node) })
}

func image(ctx context.Context, f flags, args []string) error {
	if err := lab.Static(args[1]); err != nil {
		return err
	}
	c, err := lab.Open(f.name)
	if err != nil {
		return err
	}
	return c.LoadImage(ctx, lab.Binary(args[0], args[1]))
}

func client(ctx context.Context, f flags, _ []string) error {
	c, err := lab.Open(f.name)
	if err != nil {
		return err
	}
	image, err := lab.ClientImage(ctx)
	if err != nil {
		return err
	}
	return c.LoadImage(ctx, image)
}

func packages(context.Context, flags, []string) error {
	fmt.Println(strings.Join(lab.Packages(), " "))
	return nil
}

func pin(ctx context.Context, _ flags, _ []string) error {
	dir := filepath.Join("test", "cluster", "lab")
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("pin rewrites files of the work tree, so run it from its root: %w", err)
	}
	return lab.Pin(ctx, dir, os.Stdout)
}

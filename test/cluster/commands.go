package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"firebreakdns.io/firebreak/test/cluster/lab"
)

// command is one of the things that the program does.
type command struct {
	// words name it, and args says what follows them.
	words, args, help string
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
	return []command{
		{"build", "", "build the programs into the cache folder (up does so too)", build},
		{"up", "", "start a cluster that stays until down", up},
		{"down", "", "end a cluster and remove all that is left of it", down},
		{"status", "", "show all clusters, and what dead ones have left", status},
		{"kubeconfig", "", "print the name of the administrator's kubeconfig", printKubeconfig},
		{"logs", "", "print the name of the folder with the logs", printLogs},
		{"exec", "MACHINE COMMAND...", "run a command on a node, or on the machine called control", execute},
		{"node add", "", "add a node", nodeAdd},
		{"node kill", "NODE", "let a node die as a machine does", nodeKill},
		{"node revive", "NODE", "switch a killed node on again", nodeRevive},
		{"node remove", "NODE", "kill a node and remove it for good", nodeRemove},
		{"image", "REF FILE", "make an image of a static program and load it on all nodes", image},
		{"client", "", "load the image localhost/client:1, with glibc, musl and busybox", client},
		{"packages", "", "print the Debian packages that a cluster needs", packages},
		{"pin", "", "after a change in lab/versions.go: resolve the programs' modules anew", pin},
	}
}

// run finds the command that the words name and does it.
func run(ctx context.Context, words []string) error {
	for _, c := range commands() {
		names := strings.Fields(c.words)
		if len(words) < len(names) || !slices.Equal(words[:len(names)], names) {
			continue
		}
		var f flags
		set := flag.NewFlagSet(c.words, flag.ContinueOnError)
		set.StringVar(&f.name, "name", "dev", "the cluster's name")
		set.IntVar(&f.nodes, "nodes", 3, "how many nodes up starts; with 0, only the control plane")
		set.BoolVar(&f.foreground, "foreground", false, "let up wait for Ctrl-C, and the cluster end with it, also when it is killed")
		set.Usage = func() {
			fmt.Fprintf(set.Output(), "usage: go run ./test/cluster %s [flags] %s\n%s\n", c.words, c.args, c.help)
			set.PrintDefaults()
		}
		if err := set.Parse(words[len(names):]); err != nil {
			return err
		}
		return c.do(ctx, f, set.Args())
	}
	fmt.Fprintln(os.Stderr, "usage: go run ./test/cluster COMMAND [--name NAME] ...")
	for _, c := range commands() {
		fmt.Fprintf(os.Stderr, "  %-24s %s\n", strings.TrimSpace(c.words+" "+c.args), c.help)
	}
	if len(words) == 0 {
		return errors.New("no command")
	}
	return fmt.Errorf("no such command: %s", strings.Join(words, " "))
}

func build(ctx context.Context, _ flags, _ []string) error {
	_, err := lab.Build(ctx, os.Stdout)
	return err
}

func up(ctx context.Context, f flags, _ []string) error {
	c, err := lab.Up(ctx, lab.Options{Name: f.name, Nodes: f.nodes, Detached: !f.foreground, Out: os.Stdout})
	if err != nil {
		return err
	}
	fmt.Printf("export KUBECONFIG=%s\n", c.KubeconfigPath())
	if !f.foreground {
		return nil
	}
	<-ctx.Done()
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

func execute(ctx context.Context, f flags, args []string) error {
	if len(args) < 2 {
		return errors.New("say a machine and a command: exec node1 nft list ruleset")
	}
	c, err := lab.Open(f.name)
	if err != nil {
		return err
	}
	cmd, err := c.Command(ctx, args[0], args[1:]...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
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
	if len(args) != 1 {
		return errors.New("say one node, such as node1")
	}
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
	if len(args) != 2 {
		return errors.New("say a reference and a program: image localhost/coredns:test bin/coredns")
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

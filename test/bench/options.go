package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"firebreakdns.io/firebreak/test/bench/program"
)

// options of a run.
type options struct {
	servers []string
	works   []string
	rounds  int
	length  time.Duration
	entries int
	out     string
	docs    string
	install bool
	hold    bool
	workDir string
	coredns string
}

const usage = `Usage: go run ./test/bench [options]

Measures cached answers of DNS servers side by side and writes a table, JSON and
a picture. Servers that are not installed are left out, and said so; -install
brings them (Debian's packages, as root).

`

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
		fmt.Fprintf(stderr, "\nServers: %s\nWorks:   %s\n", strings.Join(serverNames(), ", "), strings.Join(workNames(), ", "))
	}
	servers := flags.String("servers", "", "servers, with commas (default all)")
	works := flags.String("works", "", "kinds of load, with commas (default all)")
	quick := flags.Bool("quick", false, "a look: one round of a second, small caches, where nothing else is said; no figures to quote")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds: medians are of as many figures")
	flags.DurationVar(&o.length, "length", 3*time.Second, "how long each load runs")
	flags.IntVar(&o.entries, "entries", 100_000, "entries for the memory of a cache and for the cold start")
	flags.StringVar(&o.out, "out", "bin/bench", "folder for bench.json and bench.svg")
	flags.StringVar(&o.docs, "docs", "", "a page, such as docs/performance.md, whose figures are written anew between their markers; the picture goes beside it")
	program.Given(flags, &o.coredns, "coredns", "a `FILE` to measure as coredns instead of one built from this tree")
	flags.BoolVar(&o.install, "install", false, "install what is missing, with apt-get")
	flags.BoolVar(&o.hold, "hold", false, "exit code 1 if something does not hold that has to")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, complain(stderr, fmt.Errorf("%q: there are only options; -help lists them", flags.Arg(0)))
	}
	if *quick {
		given := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		for name, value := range map[string]string{"rounds": "1", "length": "1s", "entries": "10000"} {
			if !given[name] {
				if err := flags.Set(name, value); err != nil {
					return nil, err
				}
			}
		}
	}
	var err error
	if o.servers, err = chosen("server", *servers, serverNames()); err != nil {
		return nil, complain(stderr, err)
	}
	if o.works, err = chosen("work", *works, workNames()); err != nil {
		return nil, complain(stderr, err)
	}
	switch {
	case o.rounds < 1 || o.rounds > 100:
		err = errors.New("-rounds: from 1 to 100")
	case o.length < 200*time.Millisecond || o.length > time.Minute:
		err = errors.New("-length: from 200ms to 1m")
	case o.entries < 1000 || o.entries > 2_000_000:
		err = errors.New("-entries: from 1000 to 2000000")
	}
	if err != nil {
		return nil, complain(stderr, err)
	}
	return o, nil
}

func complain(stderr io.Writer, err error) error {
	fmt.Fprintln(stderr, "bench:", err)
	return err
}

// chosen are the words of a list, in the order of all; without a list, all.
func chosen(what, list string, all []string) ([]string, error) {
	if list == "" {
		return all, nil
	}
	words := strings.Split(list, ",")
	for _, w := range words {
		if !slices.Contains(all, w) {
			return nil, fmt.Errorf("%q is no %s; there are %s", w, what, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return !slices.Contains(words, n) }), nil
}

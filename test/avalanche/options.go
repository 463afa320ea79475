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

// options of a run. Times are of one way; the ways follow each other.
type options struct {
	Ways     []string      `json:"ways"`
	Warm     time.Duration `json:"-"` // caches fill; not counted
	Before   time.Duration `json:"-"`
	During   time.Duration `json:"-"` // the dead server is still in the Service
	After    time.Duration `json:"-"`
	Capacity int           `json:"capacity"`    // of a server, queries a second
	Queue    int           `json:"queue"`       // that a server keeps waiting
	Use      float64       `json:"utilization"` // of all servers, by clients that ask them directly
	Pods     int           `json:"pods"`
	Timeout  time.Duration `json:"-"` // of the stub
	Again    int           `json:"again"`
	Seed     uint64        `json:"seed"`
	coredns  string
	out      string
	docs     string
	hold     bool
}

const usage = `Usage: go run ./test/avalanche [options]

Reproduces a DNS avalanche in network namespaces, as root, three ways side by
side, and writes a table, JSON and a picture of P99 over time.

`

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("avalanche", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	list := flags.String("ways", "", "ways, with commas: "+strings.Join(wayNames(), ", ")+" (default all that this build has)")
	flags.DurationVar(&o.Warm, "warm", 10*time.Second, "time for caches to fill, not counted")
	flags.DurationVar(&o.Before, "before", 20*time.Second, "time before the failure")
	flags.DurationVar(&o.During, "during", 50*time.Second, "time that the dead server is still in the Service")
	flags.DurationVar(&o.After, "after", 40*time.Second, "time after it is taken out")
	flags.IntVar(&o.Capacity, "capacity", 1000, "queries a second that one server can answer")
	flags.IntVar(&o.Queue, "queue", 256, "queries that wait at one server; what comes on top is dropped, as by a socket's buffer")
	flags.Float64Var(&o.Use, "use", 0.6, "share of all servers' capacity that clients need who ask them directly")
	flags.IntVar(&o.Pods, "pods", 60, "clients, each with an address")
	flags.DurationVar(&o.Timeout, "timeout", 5*time.Second, "the stub's timeout; its attempts are 2")
	flags.IntVar(&o.Again, "again", 2, "times that an application asks again when a lookup failed")
	flags.Uint64Var(&o.Seed, "seed", 1, "of when and what clients ask: the same for each way")
	program.Given(flags, &o.coredns, "coredns", "a `FILE` to use as coredns instead of one built from this tree")
	flags.StringVar(&o.out, "out", "bin/avalanche", "folder for avalanche.json and avalanche.svg")
	flags.StringVar(&o.docs, "docs", "", "a page whose figures are written anew between their markers; the picture goes beside it")
	flags.BoolVar(&o.hold, "hold", false, "exit code 1 if what has to hold of ours does not")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	err := o.check(flags.Args(), *list)
	if err != nil {
		fmt.Fprintln(stderr, "avalanche:", err)
	}
	return o, err
}

func (o *options) check(rest []string, list string) error {
	if list != "" {
		o.Ways = strings.Split(list, ",")
	}
	for _, w := range o.Ways {
		if !slices.Contains(wayNames(), w) {
			return fmt.Errorf("%q is no way; there are %s", w, strings.Join(wayNames(), ", "))
		}
	}
	within := func(d, least, most time.Duration) bool { return d >= least && d <= most }
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q: there are only options; -help lists them", rest[0])
	case !within(o.Warm, 0, time.Minute), !within(o.Before, 2*time.Second, 5*time.Minute), !within(o.During, 2*time.Second, 5*time.Minute), !within(o.After, 2*time.Second, 5*time.Minute):
		return errors.New("-warm: at most 1m; -before, -during and -after: from 2s to 5m")
	case o.Capacity < 50 || o.Capacity > 5000:
		return errors.New("-capacity: from 50 to 5000 queries a second")
	case o.Queue < 1 || o.Queue > 10_000:
		return errors.New("-queue: from 1 to 10000")
	case o.Use <= 0 || o.Use > 1:
		return errors.New("-use: more than 0, at most 1")
	case o.Pods < 1 || o.Pods > 250:
		return errors.New("-pods: from 1 to 250")
	case !within(o.Timeout, 500*time.Millisecond, 30*time.Second):
		return errors.New("-timeout: from 500ms to 30s")
	case o.Again < 0 || o.Again > 10:
		return errors.New("-again: from 0 to 10")
	}
	return nil
}

// total is how long clients ask, the warming included.
func (o *options) total() time.Duration { return o.Warm + o.Before + o.During + o.After }

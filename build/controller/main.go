// Command firebreak-controller runs the drills of one fleet of DNS servers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // schedules have time zones, and small images have none

	"firebreakdns.io/firebreak/controller/fleet"
	"firebreakdns.io/firebreak/controller/standalone"
)

const usage = `firebreak-controller runs drills: it takes one DNS server away from chosen
clients for 15 to 300 seconds, watches what happens, puts it back, and reports
client by client who failed over.

  firebreak-controller --fleet fleet.yaml --state /var/lib/firebreak
  firebreak-controller --fleet fleet.yaml --check

It starts no drill by itself unless the fleet file has a schedule that is not
suspended, and none at all while drills.enabled is not true there. The file is
watched: switching drills off stops one that is on.

The API is where the fleet file says (api.listen), else api.sock in the state
folder; the firebreak command talks to it. On SIGTERM a drill that is on is ended
at once. A controller that was killed goes on, or puts back, when it is started
again on the same state folder; until then a server ends its drill by itself,
within 30 seconds or at its end.

`

func main() {
	err := start(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage")

func start(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("firebreak-controller", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("fleet", "", "the fleet `file`")
	state := flags.String("state", "", "a `folder` for runs and reports, of this controller alone")
	check := flags.Bool("check", false, "check the fleet file and the environment, and do nothing else")
	format := flags.String("log", "text", "how to log: text or json")
	showVersion := flags.Bool("version", false, "say which version this is")
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	misuse := func(what string) error {
		fmt.Fprintln(stderr, what+"; --help says more")
		return errUsage
	}
	var handler slog.Handler = slog.NewTextHandler(stderr, nil)
	switch {
	case *showVersion:
		fmt.Fprintln(stdout, "firebreak-controller", fleet.Version())
		return nil
	case flags.NArg() > 0:
		return misuse(fmt.Sprintf("%q is not understood", flags.Arg(0)))
	case *file == "":
		return misuse("which fleet? Give --fleet fleet.yaml")
	case *check:
		return checkFile(*file, os.Environ(), stdout, stderr)
	case *state == "":
		return misuse("where is its state? Give --state /var/lib/firebreak")
	case *format == "json":
		handler = slog.NewJSONHandler(stderr, nil)
	case *format != "text":
		return misuse("--log is text or json")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	c, err := standalone.Open(standalone.Options{FleetFile: *file, State: *state, Log: slog.New(handler), Env: os.Getenv, Environ: os.Environ()})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// checkFile says whether a controller would start with the file, and warns of
// what probably was not meant.
func checkFile(file string, environ []string, stdout, stderr io.Writer) error {
	c, err := fleet.Load(file)
	if err != nil {
		return err
	}
	for _, w := range c.Warnings {
		fmt.Fprintln(stderr, "warning:", w.In(c.Path))
	}
	_, err = standalone.TimingsFrom(os.Getenv, c.AllLoopback())
	if err = errors.Join(err, standalone.CheckEnviron(environ)); err != nil {
		return err
	}
	if expired := c.Expired(time.Now()); len(expired) > 0 {
		return errors.Join(expired...)
	}
	drills := "off"
	if c.Drills.Enabled {
		drills = "on"
	}
	fmt.Fprintf(stdout, "%s is in order: fleet %s, %d servers, %d schedules, drills %s\n", file, c.Fleet, len(c.Servers), len(c.Schedules), drills)
	return nil
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"firebreakdns.io/firebreak/build/firebreak/client"
	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/version"
)

// Options of a demo.
type Options struct {
	Story io.Writer // what is going on, for people
	Color bool
	Width int // columns that the story is for; 0: as many as read well
	// Follow shows a run while it is on, and returns its report at the end.
	Follow func(context.Context, *client.Client, *run.Report) (*run.Report, error)
	Page   string // where the report's page goes; "": DefaultPage here, or beside the logs
	Keep   bool   // keep the folder with files and logs
}

// DefaultPage is the name of the report's page.
const DefaultPage = "firebreak-demo-report.html"

// The drill of the demo, and the waits around it. The outage itself is long
// enough for a client with a timeout of five seconds to be stuck beyond doubt.
const (
	drillSeconds  = 18
	readSeconds   = 5 // instead of 30
	gapSeconds    = 0 // instead of 600
	tailSeconds   = 6 // instead of 60; above the 5 s in which a late answer still counts
	retrySeconds  = 10
	returnSeconds = 8 // instead of 900

	startPatience = 30 * time.Second // until all is up, on a busy machine
	settle        = 3 * time.Second  // of usual traffic before anything is asked
	amendPatience = 20 * time.Second
)

// errDiffers is a demo whose verdicts are not the expected ones.
var errDiffers = errors.New("the verdicts are not what they should be")

// busy are the reasons that a machine without time for anybody gives a drill to
// stop itself. They are right, and say nothing of the clients.
var busy = []run.Reason{run.LatencyRising, run.AnswersTooSlow, run.RetriesRising, run.OtherServerLost, run.NoneHealthy}

// busyError is a drill that ended so.
type busyError struct {
	reason  run.Reason
	message string
}

func (b *busyError) Error() string {
	return fmt.Sprintf("the drill stopped itself: %s (%s). This machine is too busy for a demo: try again when it has time", b.message, b.reason)
}

// Run shows a drill, and returns its report. The error says what was not as it
// should be; the report is there even so, if there is one.
func Run(ctx context.Context, o Options) (*run.Report, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	coredns, err := find(programServer)
	if err != nil {
		return nil, err
	}
	controller, err := find(programController)
	if err != nil {
		return nil, err
	}
	r, err := show(ctx, o, coredns, controller, true)
	var b *busyError
	if !errors.As(err, &b) {
		return r, err
	}
	fmt.Fprintf(o.Story, "\nThe drill stopped itself: %s (%s).\nThat is what protects real clients; here it only says that this machine is busy. Once more.\n\n", b.message, b.reason)
	return show(ctx, o, coredns, controller, false)
}

// show is one try, in a world of its own.
func show(ctx context.Context, o Options, coredns, controller string, first bool) (report *run.Report, err error) {
	w, err := newWorld()
	if err != nil {
		return nil, err
	}
	keep := o.Keep
	defer func() {
		var b *busyError
		if err != nil && ctx.Err() == nil && !errors.As(err, &b) {
			keep = true // there is something to look at
		}
		if !keep {
			_ = os.RemoveAll(w.dir)
		} else {
			fmt.Fprintf(o.Story, "\nFiles and logs are kept in %s.\n", w.dir)
		}
	}()
	d := &demo{options: o, world: w, cast: newCast(w), herd: newHerd(w.dir)}
	// The clients end first: they would only see servers leave.
	living, rest := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer d.herd.stop()
	defer clients.Wait()
	defer rest()

	if first {
		d.introduce()
	}
	if err := d.startServers(coredns, controller); err != nil {
		return nil, err
	}
	c, err := client.New(client.Options{
		Controller: "https://" + w.api.String(), Certs: w.caller, Timeout: 10 * time.Second, Agent: "firebreak-demo/" + version.String(),
	})
	if err != nil {
		return nil, err
	}
	if err := d.ready(ctx, c); err != nil {
		return nil, err
	}
	// Not before: a client that found no server yet would have moved on already.
	asleep := make(chan struct{})
	for _, p := range d.cast {
		clients.Go(func() { p.live(living, asleep) })
	}
	if !pause(ctx, settle) {
		return nil, ctx.Err()
	}
	close(asleep)
	return d.drill(ctx, c)
}

// demo is one that is on.
type demo struct {
	options Options
	world   *world
	cast    []*player
	herd    *herd
}

// drilled is the server that is taken away.
func (d *demo) drilled() server { return d.world.servers[0] }

// startServers starts the upstream, the servers and the controller.
func (d *demo) startServers(coredns, controller string) error {
	corefiles := map[string]string{"upstream": d.world.upstreamCorefile()}
	for _, s := range d.world.servers {
		corefiles[s.name] = d.world.serverCorefile(s)
	}
	return d.startAll(coredns, controller, corefiles)
}

// startAll starts a server for each Corefile, and the controller.
func (d *demo) startAll(coredns, controller string, corefiles map[string]string) error {
	w := d.world
	if err := w.certificates(); err != nil {
		return err
	}
	for name, text := range corefiles {
		conf, err := w.file("Corefile."+name, text)
		if err != nil {
			return err
		}
		if _, err := d.herd.run(name, coredns, nil, "-conf", conf); err != nil {
			return err
		}
	}
	fleet, err := w.file("fleet.yaml", w.fleetFile(d.cast))
	if err != nil {
		return err
	}
	var env []string
	for name, seconds := range map[string]int{"READING": readSeconds, "GAP": gapSeconds, "TAIL": tailSeconds, "RETRY": retrySeconds, "RETURN": returnSeconds} {
		env = append(env, fmt.Sprintf("FIREBREAK_DRILL_%s_SECONDS=%d", name, seconds))
	}
	_, err = d.herd.run("controller", controller, env, "--fleet", fleet, "--state", filepath.Join(w.dir, "state"))
	return err
}

// ready waits until the controller hears all servers, and all of them answer.
func (d *demo) ready(ctx context.Context, c *client.Client) error {
	last := errors.New("nothing was heard")
	for deadline := time.Now().Add(startPatience); time.Now().Before(deadline); {
		if m := d.herd.fallen(); m != nil {
			return fmt.Errorf("%s ended by itself; its last words:\n%s", m.name, m.lastWords())
		}
		l, err := c.Servers(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			last = err
		default:
			if last = unready(l); last == nil {
				return nil
			}
		}
		if !pause(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("not up within %v: %w", startPatience, last)
}

// unready says which server is not up yet.
func unready(l *view.ServerList) error {
	for _, s := range l.Servers {
		switch {
		case !s.Heard:
			return fmt.Errorf("%s is not heard: %s", s.Name, s.Error)
		case s.Ready == nil || !*s.Ready:
			return fmt.Errorf("%s is not ready", s.Name)
		case s.LastProbe == nil:
			return fmt.Errorf("%s has not answered yet", s.Name)
		}
	}
	return nil
}

// drill runs the one drill and tells what came of it.
func (d *demo) drill(ctx context.Context, c *client.Client) (*run.Report, error) {
	d.announce()
	r, err := c.Start(ctx, d.drilled().name, view.DrillRequest{
		Mode: protocol.ModeDrop, DurationSeconds: drillSeconds, Everyone: true, Reason: "firebreak demo",
	})
	if err != nil {
		return nil, err
	}
	if r, err = d.options.Follow(ctx, c, r); err != nil {
		return r, err
	}
	if slices.Contains(busy, r.Reason) {
		return r, &busyError{r.Reason, r.Message}
	}
	// Who returned is asked a little later.
	for deadline := time.Now().Add(amendPatience); !r.Amended && r.Outcome != run.Refusal && time.Now().Before(deadline); {
		if !pause(ctx, 300*time.Millisecond) {
			return r, ctx.Err()
		}
		if r, err = c.Report(ctx, r.ID); err != nil {
			return r, err
		}
	}
	differs := d.judge(r)
	page, err := d.savePage(r)
	if err != nil {
		return r, err
	}
	d.conclude(r, page)
	if len(differs) > 0 {
		fmt.Fprintln(d.options.Story)
		for _, line := range differs {
			fmt.Fprintln(d.options.Story, "DIFFERS", line)
		}
		return r, errDiffers
	}
	return r, nil
}

// savePage writes the report's page to where it lasts.
func (d *demo) savePage(r *run.Report) (string, error) {
	path := d.options.Page
	if path == "" {
		path = DefaultPage
	}
	write := func(path string) error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := view.HTML(f, r, view.Style{Location: time.Local}); err != nil {
			_ = f.Close()
			return err
		}
		return f.Close()
	}
	err := write(path)
	if err != nil && d.options.Page == "" { // this folder cannot be written to
		path = filepath.Join(os.TempDir(), r.ID+".html")
		err = write(path)
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// pause waits, and reports whether it waited to the end.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

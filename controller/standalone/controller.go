package standalone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"firebreakdns.io/firebreak/controller/fleet"
	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/steady"
)

// Options of a Controller.
type Options struct {
	FleetFile string // fleet.yaml
	State     string // a folder of its own
	Log       *slog.Logger
	Env       func(string) string // os.Getenv
	Environ   []string            // os.Environ(), to find what was misspelt in it
}

// Controller runs the drills of one fleet. Make one with Open, let it work with
// Run.
type Controller struct {
	options Options
	log     *slog.Logger
	audit   *slog.Logger // who, what, answer
	now     func() time.Time
	started time.Time

	lock    *os.File
	store   *store
	timings run.Timings
	metrics *metrics
	apis    []*listener
	orphans []string // IDs of runs whose file was set aside
	// orphansEnded is what came of ending what they left behind: "" where it is ended.
	orphansEnded map[orphan]string

	starting sync.Mutex // held while the guards are asked and a run is made

	mu       sync.Mutex
	fleet    *fleet.Fleet
	config   *fleet.Config // the newest: who may do what, and whether drills are on
	pending  bool          // config is newer than the fleet's: it waits for the end of a run
	drives   map[string]*drive
	memories map[string]run.Memory // of schedules
	tables   seenTables
	closing  bool

	driving sync.WaitGroup
	stopAll context.CancelFunc // ends the drives
	driveIn context.Context
}

// Open checks everything and takes the state folder; nothing is changed
// anywhere if it fails. Whoever gets a Controller calls Run.
func Open(o Options) (*Controller, error) {
	config, err := fleet.Load(o.FleetFile)
	if err != nil {
		return nil, err
	}
	timings, err := TimingsFrom(o.Env, config.AllLoopback())
	if err = errors.Join(err, CheckEnviron(o.Environ)); err != nil {
		return nil, err
	}
	if o.State == "" {
		return nil, errors.New("no state folder: give one that only this controller uses, as in --state /var/lib/firebreak")
	}
	if o.State, err = filepath.Abs(o.State); err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	if err := os.MkdirAll(o.State, 0o700); err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	c := &Controller{
		options: o, log: o.Log, audit: o.Log.With("audit", true), now: steady.Now, started: steady.Now(),
		timings: timings, config: config, drives: map[string]*drive{}, metrics: newMetrics(), orphansEnded: map[orphan]string{},
	}
	c.driveIn, c.stopAll = context.WithCancel(context.Background())
	if c.lock, err = lock(o.State); err != nil {
		return nil, err
	}
	if err := c.open(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *Controller) open() (err error) {
	var open []run.Run
	if c.store, open, c.orphans, err = openStore(c.options.State, c.log, c.now); err != nil {
		return err
	}
	c.memories = c.rememberRuns(c.store.memories())
	c.warn(c.config)
	for _, e := range c.config.Expired(c.now()) {
		c.log.Error("certificate", "error", e)
	}
	if c.apis, err = c.listen(); err != nil {
		return err
	}
	if c.fleet, err = fleet.Open(c.config, fleet.Options{Log: c.log}); err != nil {
		return err
	}
	c.log.Info("controller started", "version", fleet.Version(), "fleet", c.config.Fleet, "servers", len(c.config.Servers),
		"drills", c.config.Drills.Enabled, "state", c.options.State, "api", c.apis[0].where, "unfinishedRuns", len(open))
	if short := c.timings.Shortened(); len(short) > 0 {
		c.log.Warn("waits are shortened by the environment: this is no real drill", "shortened", short)
	}
	c.goOn(open)
	return nil
}

// goOn takes up the runs that another process left unfinished. First every
// server is looked at: a run that was told that nobody is heard, when only
// nobody was asked yet, would end for want of a healthy server.
func (c *Controller) goOn(open []run.Run) {
	if len(open) == 0 {
		return
	}
	for _, r := range open {
		if r.On() {
			c.fleet.Drilling(true, r.Spec.ProbeToken)
		}
	}
	for range 2 { // one answer may be lost
		c.fleet.Refresh(c.driveIn)
		facts := c.fleet.Facts(c.now())
		if !slices.ContainsFunc(facts.Servers, func(s run.ServerFacts) bool { return !s.Heard || s.LastProbe.IsZero() }) {
			break
		}
	}
	for _, r := range open {
		c.drive(r, true)
	}
}

// close gives back what Open took.
func (c *Controller) close() {
	c.stopAll()
	c.driving.Wait()
	for _, l := range c.apis {
		l.close()
	}
	if c.fleet != nil {
		c.fleet.Close()
	}
	c.lock.Close()
}

// shutdownPatience is how long a drill's end is waited for at a shutdown. Its
// server ends it by itself soon after: nobody renews it.
const shutdownPatience = 8 * time.Second

// Run works until ctx is done. Then a drill that is on is ended at once, since
// whoever stops a controller expects that; what is left of its run (recordings,
// the report) is for the next controller.
func (c *Controller) Run(ctx context.Context) error {
	defer c.close()
	failed := make(chan error, len(c.apis))
	for _, l := range c.apis {
		go func() { failed <- l.serve() }()
	}
	watching, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { c.watchFile(watching) })
	all.Go(func() { c.watchSchedules(watching) })
	all.Go(func() { every(watching, time.Second, func() { c.endOrphans(watching) }) })
	all.Go(func() { every(watching, time.Second, c.followClock) })
	all.Go(func() { every(watching, time.Second, c.store.watch) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	stop()
	all.Wait()
	c.shutDown()
	return err
}

func (c *Controller) shutDown() {
	c.starting.Lock() // nothing starts any more
	c.mu.Lock()
	c.closing = true
	var on []*drive
	for _, d := range c.drives {
		if d.touching() {
			on = append(on, d)
		}
	}
	c.mu.Unlock()
	c.starting.Unlock()
	for _, d := range on {
		c.audit.Info("stop", "by", "controller", "run", d.id, "why", "the controller shuts down")
		d.wish(run.StopWish{By: "the controller", Why: "it shuts down"})
	}
	deadline := time.Now().Add(shutdownPatience)
	for _, d := range on {
		for d.touching() && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
		}
		if d.touching() {
			c.log.Error("the drill's end was not confirmed; its server ends it by itself", "run", d.id)
		}
	}
}

// followClock lets the steady clock follow the system's, but not in the middle of
// a run: its moments would fall apart.
func (c *Controller) followClock() {
	if c.on() != nil {
		return
	}
	if by := steady.Follow(); by != 0 {
		c.log.Info("the system's clock was set", "by", by)
	}
}

// every calls f at once and then at an interval, until ctx is done.
func every(ctx context.Context, interval time.Duration, f func()) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for ctx.Err() == nil {
		f()
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
}

// current is the fleet as it is watched.
func (c *Controller) current() *fleet.Fleet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fleet
}

// newest is the fleet file as it was read last.
func (c *Controller) newest() *fleet.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config
}

// on is the run that is on, nil where none is.
func (c *Controller) on() *drive {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.onLocked()
}

func (c *Controller) onLocked() *drive {
	for _, d := range c.drives {
		if d.on() {
			return d
		}
	}
	return nil
}

// find is the run of that ID that is not over, nil where it is.
func (c *Controller) find(id string) *drive {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drives[id]
}

// facts of the fleet for one run: those of its servers, other drills, and with
// the fleet file's newest word on whether drills are on.
func (c *Controller) facts(spec run.Spec) run.Facts {
	f := c.current().Facts(c.now())
	f.Enabled = c.newest().Drills.Enabled
	f.StateError = c.store.bad()
	f.Others = c.others(spec.ID, &f)
	return f
}

// others are the drills beside one: ours, and those that servers tell of.
func (c *Controller) others(id string, f *run.Facts) []run.Other {
	var out []run.Other
	known := map[string]bool{id: true}
	for _, r := range c.runs() {
		if r.report.ID == id {
			continue
		}
		known[r.report.ID] = true
		if r.on || !r.ended.IsZero() {
			o := run.Other{ID: r.report.ID, Fleet: r.report.Fleet, Server: r.report.Server, Schedule: r.report.Spec.Schedule}
			if !r.on {
				o.Ended = r.ended
			}
			out = append(out, o)
		}
	}
	for i := range f.Servers {
		s := &f.Servers[i]
		for _, d := range []*protocol.DrillState{s.State.Drill, run.AsDrill(s.State.Outage)} {
			if d == nil || known[d.ID] {
				continue
			}
			known[d.ID] = true
			o := run.Other{ID: d.ID, Fleet: d.Fleet, Server: s.Name}
			if d.Ended != nil {
				o.Ended = d.Ended.Add(-time.Duration(s.OffsetMs) * time.Millisecond)
			}
			out = append(out, o)
		}
	}
	return out
}

// resolve adds to the facts whom the spec's clients are. The facts have the seen
// tables.
func (c *Controller) resolve(spec run.Spec, f *run.Facts) []fleet.Unresolved {
	var missing []fleet.Unresolved
	f.Resolved, missing = c.current().Config().Resolve(spec.Everyone, spec.Clients, spec.Exclude, fleet.SeenNames(f))
	for _, m := range missing {
		f.Unresolved = append(f.Unresolved, m.Name)
	}
	return missing
}

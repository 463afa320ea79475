package standalone

import (
	"context"
	"fmt"
	"sync"
	"time"

	"firebreakdns.io/firebreak/controller/run"
)

// How a run is driven.
const (
	stepEvery = 250 * time.Millisecond // Step is asked, while a run is on
	restEvery = 2 * time.Second        // and while only its amendment is left
	saveEvery = 3 * time.Second        // a run whose phase stays is written down
)

// drive drives one run, from its first step until it is over.
type drive struct {
	c     *Controller
	id    string
	reads *reads
	wake  chan struct{}

	mu        sync.Mutex
	run       run.Run
	stop      *run.StopWish
	results   []run.Result
	restarted bool
	unsaved   string // why the run, as it is, is not on disk; "" where it is

	// Of the goroutine alone.
	saved   time.Time
	savedAs mark
	// recording are the calls that are on to start a recording, by server. One
	// that is to be dropped waits for it: the two would overtake each other on
	// their way, and a recording be left that keeps others from drilling.
	recording map[string]chan struct{}
}

// mark is what must never be only in memory: the phase, and what is decided.
type mark struct {
	phase   run.Phase
	outcome run.Outcome
	over    bool
}

func markOf(r *run.Run) mark { return mark{r.Phase, r.Outcome, r.Over()} }

// drive starts to drive a run that was written down. restarted: it is another
// process's. c.mu is not held.
func (c *Controller) drive(r run.Run, restarted bool) *drive {
	d := &drive{c: c, id: r.Spec.ID, run: r, restarted: restarted, wake: make(chan struct{}, 1), recording: map[string]chan struct{}{}, savedAs: markOf(&r), saved: c.now()}
	d.reads = newReads(c, r.Spec)
	c.mu.Lock()
	c.drives[d.id] = d
	c.mu.Unlock()
	c.driving.Go(func() { d.loop(c.driveIn) })
	return d
}

func (d *drive) loop(ctx context.Context) {
	defer d.reads.wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before reads.wait: they end with it
	for ctx.Err() == nil {
		d.step(ctx)
		d.mu.Lock()
		over, on := d.run.Over(), d.run.On()
		saved := markOf(&d.run) == d.savedAs && d.unsaved == ""
		d.mu.Unlock()
		if over && saved { // what is not on disk is tried again, or the next controller would find another end
			d.c.ended(d)
			return
		}
		wait := stepEvery
		if !on {
			wait = restEvery
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-d.wake:
		case <-t.C:
		}
		t.Stop()
	}
	d.mu.Lock()
	r := d.run
	d.mu.Unlock()
	if err := d.c.store.save(&r); err != nil {
		d.c.log.Error("at the end", "run", d.id, "error", err)
	}
}

// step takes in what was seen since the last one, and does what is decided.
func (d *drive) step(ctx context.Context) {
	now := d.c.now()
	d.mu.Lock()
	r := d.run
	o := run.Observation{Results: d.results, Stop: d.stop, Restarted: d.restarted}
	d.results, d.restarted = nil, false
	d.mu.Unlock()

	d.c.current().Drilling(d.c.drilling(r))
	o.Facts = d.c.facts(r.Spec)
	d.reads.want(ctx, r.Needs(now), now)
	d.reads.into(&o)

	next, actions := run.Step(r, o, d.c.now())
	d.mu.Lock()
	d.run = next
	d.mu.Unlock()
	if next.Phase != r.Phase {
		d.tell(&next)
	}
	unsafe := d.write(&next, actions)
	for _, a := range actions {
		if unsafe != nil && (a.Kind == run.ActRecord || a.Kind == run.ActOrder) {
			// What is not written down could not be put back after a crash.
			d.post(run.Result{Kind: a.Kind, Server: a.Server, BootID: a.BootID, Error: fmt.Sprintf("not sent: %v", unsafe), At: d.c.now()})
			continue
		}
		d.do(context.WithoutCancel(ctx), a) // putting back goes on while the controller shuts down
	}
}

// do carries out an action beside the run.
func (d *drive) do(ctx context.Context, a run.Action) {
	before, done := d.recording[a.Server], make(chan struct{})
	switch a.Kind {
	case run.ActRecord:
		d.recording[a.Server] = done
	case run.ActUnrecord:
	default:
		before = nil
	}
	d.reads.busy.Go(func() {
		defer close(done)
		if before != nil {
			<-before // within its own deadline
		}
		d.post(d.c.current().Do(ctx, a))
	})
}

// write writes the run down if it must be before the actions, or if it was not
// for a while. It returns why what was decided is not on disk.
func (d *drive) write(r *run.Run, actions []run.Action) error {
	now := d.c.now()
	if m := markOf(r); m == d.savedAs && len(actions) == 0 && d.why() == "" && (now.Sub(d.saved) < saveEvery || !r.On()) {
		return nil
	}
	err := d.c.store.save(r)
	d.mu.Lock()
	d.unsaved = ""
	if err != nil {
		d.unsaved = err.Error()
	}
	d.mu.Unlock()
	if err != nil {
		d.c.store.note(r)
		return err
	}
	d.saved, d.savedAs = now, markOf(r)
	return nil
}

func (d *drive) tell(r *run.Run) {
	args := []any{"run", d.id, "server", r.Spec.Server, "phase", r.Phase}
	if r.Outcome != "" {
		args = append(args, "outcome", r.Outcome, "reason", r.Reason, "message", r.Message)
	}
	d.c.log.Info("drill", args...)
	if r.Phase.Final() {
		d.c.metrics.ended(r.Outcome)
	}
}

// post hands in what came of an action.
func (d *drive) post(res run.Result) {
	if res.Error != "" {
		d.c.log.Warn("a call did not succeed", "run", d.id, "action", res.Kind, "server", res.Server, "reason", res.Reason, "error", res.Error)
	}
	d.mu.Lock()
	d.results = append(d.results, res)
	d.mu.Unlock()
	d.poke()
}

func (d *drive) poke() {
	select {
	case d.wake <- struct{}{}:
	default: // it is awake
	}
}

// wish says that somebody wants the run to end.
func (d *drive) wish(w run.StopWish) {
	d.mu.Lock()
	if d.stop == nil {
		d.stop = &w
	}
	d.mu.Unlock()
	d.poke()
}

// snapshot is the run as it is now.
func (d *drive) snapshot() run.Run {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.run
}

// on reports whether the run counts as the one that is on.
func (d *drive) on() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.run.On()
}

// touching reports whether the run may still change something, or has not put
// it back.
func (d *drive) touching() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.run.On() && d.run.Ended.IsZero() && d.run.Phase != run.Recording
}

// drilling says whether servers are to be looked at closely, and with which
// token. While several runs are open it is the one that is on that counts.
func (c *Controller) drilling(r run.Run) (bool, string) {
	if r.On() {
		return true, r.Spec.ProbeToken
	}
	if d := c.on(); d != nil {
		return true, d.snapshot().Spec.ProbeToken
	}
	return false, ""
}

// ended takes a run that is over off the list.
func (c *Controller) ended(d *drive) {
	r := d.snapshot()
	c.mu.Lock()
	delete(c.drives, d.id)
	c.mu.Unlock()
	c.current().Drilling(c.drilling(r))
	c.log.Info("run is over", "run", d.id, "outcome", r.Outcome, "reason", r.Reason)
}

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"
)

// Options says what cluster to start.
type Options struct {
	// Name is the cluster's name: at most 12 small letters, digits and inner
	// dashes. Everything that the cluster makes on the machine is called after
	// it. Clusters of different names can be up side by side.
	Name string
	// Nodes is how many nodes there are at first. With none, the cluster is
	// etcd, the API server and the controllers: enough for what only talks to
	// the API, and up in a few seconds.
	Nodes int
	// Node is what those nodes may have that is not usual.
	Node NodeOptions
	// Images are on every node before its first pod. LoadImage adds more.
	Images []Image
	// Detached lets the cluster outlive the calling process, until Down. Else
	// it dies with the process, also when that is killed.
	Detached bool
	// Out takes progress, line by line; nil is nowhere.
	Out io.Writer
}

// Up starts a cluster and returns when the control plane answers and all nodes
// are Ready. Programs that are not in the cache folder are built first, which
// takes minutes. What a dead cluster of the same name has left is removed
// first; one that is alive is an error. When Up fails, it leaves nothing but
// logs in the state folder, which the error names.
func Up(ctx context.Context, options Options) (*Cluster, error) {
	if options.Out == nil {
		options.Out = io.Discard
	}
	if err := checkName(options.Name); err != nil {
		return nil, err
	}
	if options.Nodes < 0 || options.Nodes > maxNodes {
		return nil, fmt.Errorf("%d nodes: use 0 to %d", options.Nodes, maxNodes)
	}
	if err := Missing(); err != nil {
		return nil, err
	}
	programs, err := Build(ctx, options.Out)
	if err != nil {
		return nil, err
	}
	state, err := StateDir()
	if err != nil {
		return nil, err
	}
	unlock, err := lockName(ctx, options.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := makeWay(ctx, state, options.Name); err != nil {
		return nil, err
	}
	r, dir, err := claim(ctx, state, options.Name)
	if err != nil {
		return nil, err
	}
	c := newCluster(r, dir, options.Out)
	if err := c.up(ctx, options, programs, unlock); err != nil {
		unlock()
		// Not ctx, which may be what ended it.
		err = errors.Join(err, c.end(context.Background(), true))
		return nil, fmt.Errorf("cluster %s: %w\nwhat its programs said is in %s until the next up or down", c.name, err, c.Logs())
	}
	return c, nil
}

// up calls settled when everybody can see that there is a cluster of this name.
func (c *Cluster) up(ctx context.Context, options Options, programs Programs, settled func()) error {
	started := time.Now()
	since := func() time.Duration { return time.Since(started).Round(100 * time.Millisecond) }
	err := c.change(func(r *record) {
		r.Programs = programs
		r.Machines[control] = machineRecord{}
	})
	if err != nil {
		return err
	}
	for _, image := range append([]Image{{
		Ref: pauseRef, Files: map[string]string{"/pause": programs["pause"]}, Entrypoint: []string{"/pause"},
	}}, options.Images...) {
		if _, err := c.saveImage(image); err != nil {
			return err
		}
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := c.startMachines(ctx, cancel, options, settled); err != nil {
		return err
	}
	c.say("%s: %d nodes Ready after %s", c.name, options.Nodes, since())
	if options.Detached {
		return c.release()
	}
	return nil
}

// startMachines starts all machines at once: nodes get as far as they can
// without an API server.
func (c *Cluster) startMachines(ctx context.Context, cancel context.CancelCauseFunc, options Options, settled func()) error {
	started := time.Now()
	if err := c.makeControlPKI(); err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	k, err := c.bootControl(ctx)
	if err != nil {
		return err
	}
	settled()
	var names []string
	for range options.Nodes {
		name, err := c.reserveNode(options.Node)
		if err == nil {
			err = c.makeNodePKI(name)
		}
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	api := make(chan struct{})
	results := make(chan error, 1+len(names))
	go func() {
		err := c.startControl(ctx, k)
		if err == nil {
			c.say("%s: control plane ready after %s", c.name, time.Since(started).Round(100*time.Millisecond))
			close(api)
		}
		results <- err
	}()
	for _, name := range names {
		go func() { results <- c.bootNode(ctx, name, api) }()
	}
	var errs []error
	for range cap(results) {
		if err := <-results; err != nil {
			// The others need not go on; they say the same in other words.
			cancel(err)
			if len(errs) == 0 {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// makeWay removes what a dead cluster of that name has left. The caller holds
// the name's lock.
func makeWay(ctx context.Context, state, name string) error {
	if err := ours(state, name); err != nil {
		return err
	}
	dir := filepath.Join(state, name)
	r, err := readRecord(dir)
	if err == nil && r.Owner.alive() && r.Owner != self() && !r.Released {
		return fmt.Errorf("cluster %s belongs to process %d, which is alive: use another name, or `go run ./test/cluster down --name %s`", name, r.Owner.PID, name)
	}
	if err == nil && (r.Released || r.Owner == self()) {
		for machine, m := range r.Machines {
			if m.First.alive() {
				return fmt.Errorf("cluster %s is up (machine %s is alive): use another name, or `go run ./test/cluster down --name %s`", name, machine, name)
			}
		}
	}
	return remove(ctx, state, name, false)
}

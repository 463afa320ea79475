package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"firebreakdns.io/firebreak/test/bench/machine"
	"firebreakdns.io/firebreak/test/bench/program"
)

// trial is one way being tried.
type trial struct {
	*options
	*way
	dir, self, coredns string
	progress           io.Writer
	stop               <-chan struct{}
	servers            []*program.Process
	cache              *program.Process
	begin              time.Time
}

var errInterrupted = errors.New("interrupted")

// run tries the ways one after the other: side by side they would take each
// other's CPU.
func run(o *options, progress io.Writer, stop <-chan struct{}) (r *result, err error) {
	if why := able(); why != "" {
		return nil, errors.New(why)
	}
	dir, err := program.Folder("firebreak-avalanche")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	coredns := o.coredns
	if coredns == "" {
		fmt.Fprintln(progress, "Building coredns from this tree")
		coredns = filepath.Join(dir, "coredns")
		if err := program.BuildGo("./build/coredns", coredns); err != nil {
			return nil, err
		}
	}
	ways, err := o.chosen(coredns, progress)
	if err != nil {
		return nil, err
	}
	l, err := newLab()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	r = &result{Options: *o, Machine: machine.This(), Begun: time.Now().UTC().Truncate(time.Second)}
	for _, w := range ways {
		t := &trial{options: o, way: w, dir: filepath.Join(dir, w.name), self: self, coredns: coredns, progress: progress, stop: stop}
		one, err := t.run()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		r.Ways = append(r.Ways, one)
		fmt.Fprintln(progress, one.short())
	}
	return r, nil
}

// chosen are the ways to try, without what this build cannot.
func (o *options) chosen(coredns string, progress io.Writer) (ways []*way, err error) {
	out, err := exec.Command(coredns, "-plugins").Output() //nolint:gosec // just built, or named by the caller
	if err != nil {
		return nil, fmt.Errorf("%s -plugins: %w", coredns, err)
	}
	plugins := strings.Fields(string(out))
	for i := range allWays {
		w := &allWays[i]
		named := slices.Contains(o.Ways, w.name)
		if len(o.Ways) > 0 && !named {
			continue
		}
		lacks := slices.IndexFunc(w.needs, func(p string) bool { return !slices.Contains(plugins, p) })
		if lacks >= 0 {
			why := fmt.Sprintf("%s: this build of coredns has no plugin %s", w.name, w.needs[lacks])
			if named {
				return nil, errors.New(why)
			}
			fmt.Fprintln(progress, "Without", why)
			continue
		}
		ways = append(ways, w)
	}
	return ways, nil
}

// run brings the servers and the cache up, has the clients ask, and lets one
// server die meanwhile.
func (t *trial) run() (w wayResult, err error) {
	if err := os.MkdirAll(t.dir, 0o755); err != nil { //nolint:gosec // no secret in it
		return w, err
	}
	defer t.end()
	if err := t.start(); err != nil {
		return w, err
	}
	lookups := float64(t.Capacity*serverCount) * t.Use / queriesPerLookup
	t.begin = time.Now().Add(500 * time.Millisecond)
	herd := program.Spec{
		Args: []string{
			t.self, "-server", t.nameserver + ":53", "-rate", fmt.Sprint(lookups), "-pods", fmt.Sprint(t.Pods),
			"-begin", fmt.Sprint(t.begin.UnixNano()), "-length", t.total().String(), "-timeout", t.Timeout.String(),
			"-again", fmt.Sprint(t.Again), "-seed", fmt.Sprint(t.Seed),
		},
		Env: []string{roleVariable + "=clients"}, Namespace: podsSpace,
	}
	type asked struct {
		out []byte
		err error
	}
	done := make(chan asked, 1)
	go func() {
		out, err := program.Run(herd)
		done <- asked{out, err}
	}()
	lost, err := t.failure()
	if err != nil {
		return w, err
	}
	var a asked
	select {
	case a = <-done:
	case <-t.stop:
		return w, errInterrupted
	}
	if a.err != nil {
		return w, a.err
	}
	for _, p := range append(slices.Clone(t.servers), t.cache) {
		if p != nil {
			if err := p.Err(); err != nil {
				return w, err
			}
		}
	}
	all, err := readLookups(bytes.NewReader(a.out))
	if err != nil {
		return w, err
	}
	tallies := make([]map[int64]tally, serverCount)
	for i := range tallies {
		if tallies[i], err = readTallies(t.serverLog(i)); err != nil {
			return w, err
		}
	}
	return t.outcome(all, tallies, lost), nil
}

func (t *trial) serverLog(i int) string { return filepath.Join(t.dir, fmt.Sprintf("server%d.log", i)) }

// start brings up the servers, the Service and, where the way has one, the cache.
func (t *trial) start() error {
	all := make([]string, serverCount)
	for i := range all {
		all[i] = serverAddr(i)
	}
	serve := func(addr, log string, rate int) error {
		p, err := program.Start(program.Spec{
			Args: []string{t.self, "-addr", addr + ":53", "-rate", fmt.Sprint(rate), "-queue", fmt.Sprint(t.Queue)},
			Env:  []string{roleVariable + "=server"}, Namespace: serversSpace, Log: log,
		})
		if err == nil {
			t.servers = append(t.servers, p)
		}
		return err
	}
	for i, addr := range all {
		if err := serve(addr, t.serverLog(i), t.Capacity); err != nil {
			return err
		}
	}
	if err := serve(outside, filepath.Join(t.dir, "outside.log"), 0); err != nil {
		return err
	}
	if err := putService(all); err != nil {
		return err
	}
	if t.corefile != nil {
		path := filepath.Join(t.dir, "Corefile")
		if err := os.WriteFile(path, []byte(t.corefile(t.dir)), 0o600); err != nil {
			return err
		}
		var err error
		t.cache, err = program.Start(program.Spec{
			Args: []string{t.coredns, "-conf", path}, Namespace: nodeSpace, Log: filepath.Join(t.dir, "cache.log"), Dir: t.dir,
		})
		if err != nil {
			return err
		}
	}
	return t.waitReady()
}

// waitReady waits until a pod gets an answer.
func (t *trial) waitReady() error {
	probe := fmt.Sprintf("dns://%s/%s.%s", t.nameserver, serviceName(0), strings.TrimSuffix(search[0], "."))
	var last error
	for range 100 {
		if last = inside(podsSpace, "", t.coredns, "probe", "-timeout", "500ms", probe); last == nil {
			return nil
		}
		if t.cache != nil {
			if err := t.cache.Err(); err != nil {
				return err
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return last
}

// failure has the last server die, and some time later taken out of the Service.
// It returns what was sent to it in vain until then, and until the end.
func (t *trial) failure() (lost [2]int, err error) {
	alive := make([]string, 0, serverCount-1)
	for i := range serverCount - 1 {
		alive = append(alive, serverAddr(i))
	}
	at := t.begin.Add(t.Warm + t.Before)
	if err := t.until(at); err != nil {
		return lost, err
	}
	if err := blackHole(dead); err != nil {
		return lost, err
	}
	if err := t.until(at.Add(t.During)); err != nil {
		return lost, err
	}
	if err := putService(alive); err != nil {
		return lost, err
	}
	if err := forgetFlows(dead); err != nil {
		return lost, err
	}
	if lost[0], err = swallowed(); err != nil {
		return lost, err
	}
	if err := t.until(at.Add(t.During + t.After)); err != nil {
		return lost, err
	}
	lost[1], err = swallowed()
	return lost, err
}

func (t *trial) until(at time.Time) error {
	select {
	case <-time.After(time.Until(at)):
		return nil
	case <-t.stop:
		return errInterrupted
	}
}

// end stops what runs and undoes the failure.
func (t *trial) end() {
	for _, p := range append(t.servers, t.cache) {
		if p != nil {
			p.Stop()
		}
	}
	if err := reviveAll(); err != nil {
		fmt.Fprintln(t.progress, err)
	}
	// What the kernel still knows of this way's flows is not the next one's.
	if err := inside(nodeSpace, "", "conntrack", "-F"); err != nil {
		fmt.Fprintln(t.progress, err)
	}
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"firebreakdns.io/firebreak/test/bench/program"
)

// measureCold fills the node cache, stops it, and starts it from its snapshot
// with an upstream that is not there: what is answered then, the snapshot answers.
func (s *session) measureCold() error {
	d := serverNamed("ours")
	c, err := s.coldOf(d)
	if err != nil {
		s.fail(0, d, coldWork, err)
		return nil
	}
	s.result.Cold = &c
	fmt.Fprintf(s.progress, "cold start of %s: %d entries, %.2f s to the first answer (%.2f s with none), %.2f %% of the first second, %.2f %% of all\n",
		d.name, c.Entries, c.Seconds, c.Empty, 100*c.Answered, 100*c.Held)
	return nil
}

func (s *session) coldOf(d *server) (c cold, err error) {
	c = cold{Server: d.name, Entries: s.entries}
	p := place{workers: 1, upstream: s.upstream, entries: s.entries, snapshot: filepath.Join(s.tools.dir, "cache.snapshot")}
	r, err := start(d, s.tools, p, probe)
	if err != nil {
		return c, err
	}
	c.Empty = r.started.Seconds()
	p.port = r.place.port // where a server listens is part of what it is
	for range 2 {
		if _, err := fill(r, s.entries); err != nil {
			r.stop()
			return c, err
		}
	}
	begin := time.Now()
	r.stop()
	c.Save = time.Since(begin).Seconds()
	info, err := os.Stat(p.snapshot)
	if err != nil {
		return c, err
	}
	c.File = info.Size()

	if p.upstream, err = program.FreePort(); err != nil {
		return c, err
	}
	r, err = start(d, s.tools, p, fmt.Sprintf("%08x.%s", 0, fillZone))
	if err != nil {
		return c, err
	}
	defer r.stop()
	c.Seconds = r.started.Seconds()
	// Each name once, at a node's rate, for the first second.
	first, err := r.askOnce(5000, s.entries-5000, 5000)
	if err != nil {
		return c, err
	}
	c.Answered = float64(first.Answered) / float64(first.Sent)
	all, err := fill(r, s.entries)
	if err != nil {
		return c, err
	}
	c.Held = float64(all.Answered) / float64(all.Sent)
	return c, r.err()
}

// askOnce asks count names from first on, at a rate.
func (r *running) askOnce(count, first, rate int) (l load, err error) {
	if first < 0 {
		return l, errors.New("fewer entries than one second asks")
	}
	out, err := program.Run(program.Spec{
		Args: []string{
			r.place.tools.load, "-p", fmt.Sprint(r.place.port), "-u", fmt.Sprint(count), "-o", fmt.Sprint(first), "-z", fillZone,
			"-s", "16", "-r", fmt.Sprint(rate), "-d", fmt.Sprint(float64(count) / float64(rate)),
		},
		CPUs: r.place.tools.clientCPU(1),
	})
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(out, &l); err != nil {
		return l, err
	}
	if l.Sent == 0 {
		return l, errors.New("nothing was asked")
	}
	return l, nil
}

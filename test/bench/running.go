package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"firebreakdns.io/firebreak/test/bench/program"
)

// startWithin is how long a server may take to its first answer.
const startWithin = 20 * time.Second

// running is a server under test, up and answering.
type running struct {
	*server
	place     *place
	processes []*program.Process
	started   time.Duration // from exec to the first answer
}

// start brings a server up in a folder of its own. probe is a name that it must
// be able to answer.
func start(s *server, t *tools, p place, probe string) (*running, error) {
	dir, err := os.MkdirTemp(t.dir, s.name+"-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // some servers drop root and write there
		return nil, err
	}
	p.dir, p.tools = dir, t
	if p.port == 0 {
		if p.port, err = program.FreePort(); err != nil {
			return nil, err
		}
	}
	if p.extra, err = program.FreePort(); err != nil {
		return nil, err
	}
	specs, err := s.processes(&p)
	if err != nil {
		return nil, err
	}
	r := &running{server: s, place: &p}
	for i, spec := range specs {
		spec.Dir, spec.Log, spec.CPUs = dir, filepath.Join(dir, fmt.Sprintf("log%d", i)), t.serverCPUs(p.workers)
		proc, err := program.Start(spec)
		if err != nil {
			r.stop()
			return nil, err
		}
		r.processes = append(r.processes, proc)
	}
	if p.secure {
		r.started, err = waitTLS(r.processes[0], r.addr(), startWithin)
	} else {
		r.started, err = program.WaitDNS(r.processes[0], r.addr(), probe, startWithin)
	}
	if err != nil {
		r.stop()
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return r, nil
}

func (r *running) addr() string { return fmt.Sprintf("127.0.0.1:%d", r.place.port) }

func (r *running) stop() {
	for _, p := range r.processes {
		p.Stop()
	}
}

// err says which of its processes ended, if one did.
func (r *running) err() error {
	for _, p := range r.processes {
		if err := p.Err(); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

func (r *running) usage() (u program.Usage, err error) {
	for _, p := range r.processes {
		one, err := p.Usage()
		if err != nil {
			return u, err
		}
		u.Total += one.Total
		u.User += one.User
		u.System += one.System
	}
	return u, nil
}

func (r *running) rss() (total int64, err error) {
	for _, p := range r.processes {
		one, err := p.RSS()
		if err != nil {
			return 0, err
		}
		total += one
	}
	return total, nil
}

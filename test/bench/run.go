package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"firebreakdns.io/firebreak/test/bench/document"
	"firebreakdns.io/firebreak/test/bench/machine"
	"firebreakdns.io/firebreak/test/bench/program"
)

// session is a run in progress.
type session struct {
	*options
	tools    *tools
	present  []*server
	upstream int // port
	progress io.Writer
	stop     <-chan struct{}
	result   *result
	fresh    int // runs that used fresh names
}

var errInterrupted = errors.New("interrupted")

// run measures, and returns how many claims do not hold.
func run(o *options, stdout, progress io.Writer, stop <-chan struct{}) (failed int, err error) {
	if o.install {
		if err := install(o, progress); err != nil {
			return 0, err
		}
	}
	t, err := prepare(o, progress)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(t.dir)) }()
	s := &session{options: o, tools: t, progress: progress, stop: stop}
	s.result = &result{Machine: machine.This(), Begun: time.Now().UTC().Truncate(time.Second), Rounds: o.rounds, Length: o.length.Seconds()}
	s.takeStock()
	if s.upstream, err = program.FreePort(); err != nil {
		return 0, err
	}
	authority, err := program.Start(program.Spec{
		Args: []string{t.self, fmt.Sprint(s.upstream)}, Env: []string{roleEnv("authority")},
		Log: filepath.Join(t.dir, "authority.log"), CPUs: t.clientCPU(1),
	})
	if err != nil {
		return 0, err
	}
	defer authority.Stop()
	if _, err := program.WaitDNS(authority, s.upstreamAddr(), probe, startWithin); err != nil {
		return 0, err
	}
	if err := s.measureAll(); err != nil {
		return 0, err
	}
	s.result.Took = time.Since(s.result.Begun).Seconds()
	s.result.Figures = figures(s.result.Runs)
	s.result.Claims = judge(s.result)
	return s.report(stdout)
}

// probe is a name that every server can answer, and no load asks.
const probe = "ready." + cachedZone

func (s *session) upstreamAddr() string { return fmt.Sprintf("127.0.0.1:%d", s.upstream) }

// takeStock says which of the chosen servers are here.
func (s *session) takeStock() {
	for _, name := range s.servers {
		d := serverNamed(name)
		info := serverInfo{Name: d.name, Title: d.title, Kind: d.kind, Missing: s.tools.missing(d)}
		if info.Missing == "" {
			info.Version = s.tools.versionOf(d)
			s.present = append(s.present, d)
		} else {
			fmt.Fprintf(s.progress, "Without %s: %s\n", d.name, info.Missing)
		}
		s.result.Servers = append(s.result.Servers, info)
	}
}

// chosenWorks are the loads of the common rounds that a server of this kind gets.
func (s *session) chosenWorks(d *server, workers int, secure bool) (chosen []*work) {
	for i := range works {
		w := &works[i]
		if w.times > 0 || w.workers != workers || w.secure != secure || w.streams && !d.streams || !w.streams && d.streamsOnly || !slices.Contains(s.works, w.name) {
			continue
		}
		if w.client == dnsperfClient && !haveDnsperf() {
			continue
		}
		chosen = append(chosen, w)
	}
	return chosen
}

func (s *session) measureAll() error {
	for round := 1; round <= s.rounds; round++ {
		// Another one first each time: who follows whom shall not matter.
		for i := range s.present {
			d := s.present[(i+round-1)%len(s.present)]
			if d.variant {
				continue
			}
			for _, workers := range []int{1, 2} {
				for _, secure := range []bool{false, true} {
					if err := s.measureServer(round, d, workers, s.chosenWorks(d, workers, secure)); err != nil {
						return err
					}
				}
			}
		}
	}
	for i := range works {
		w := &works[i]
		if w.times == 0 || !slices.Contains(s.works, w.name) {
			continue
		}
		among := slices.DeleteFunc(slices.Clone(s.present), func(d *server) bool { return !slices.Contains(w.only, d.name) })
		for round := 1; round <= w.times*s.rounds; round++ {
			for k := range among {
				if err := s.measureServer(round, among[(k+round-1)%len(among)], w.workers, []*work{w}); err != nil {
					return err
				}
			}
		}
	}
	if slices.Contains(s.works, memoryWork) {
		if err := s.measureMemory(); err != nil {
			return err
		}
	}
	if slices.Contains(s.works, coldWork) && slices.Contains(s.present, serverNamed("ours")) {
		return s.measureCold()
	}
	return nil
}

// measureServer starts a server and puts one load after the other on it.
func (s *session) measureServer(round int, d *server, workers int, chosen []*work) error {
	if len(chosen) == 0 || d.most > 0 && workers > d.most {
		return nil
	}
	r, err := start(d, s.tools, place{workers: workers, upstream: s.upstream, secure: chosen[0].secure}, probe)
	if err != nil {
		s.fail(round, d, "start", err)
		return nil
	}
	defer r.stop()
	for _, w := range chosen {
		select {
		case <-s.stop:
			return errInterrupted
		default:
		}
		if w.fresh {
			s.fresh = (s.fresh + 1) % maxRuns
		}
		m, err := measure(w, r, s.upstreamAddr(), s.length, round, s.fresh)
		if err != nil {
			s.fail(round, d, w.name, err)
			continue
		}
		s.result.Runs = append(s.result.Runs, m)
		fmt.Fprintf(s.progress, "%d %-14s %-8s %7.2f us  %9.0f/s  busy %3.0f %%  lost %d\n", round, d.name, w.name, m.CPU, m.Rate, 100*m.Busy, m.Lost)
	}
	return nil
}

// fail keeps a run that gave no figure: the others go on.
func (s *session) fail(round int, d *server, what string, err error) {
	text := fmt.Sprintf("round %d, %s, %s: %v", round, d.name, what, err)
	s.result.Failures = append(s.result.Failures, text)
	fmt.Fprintln(s.progress, text)
}

// report prints the table and writes the files.
func (s *session) report(stdout io.Writer) (failed int, err error) {
	if err := os.MkdirAll(s.out, 0o755); err != nil { //nolint:gosec // to be read
		return 0, err
	}
	fmt.Fprint(stdout, text(s.result))
	picture := picture(s.result)
	if err := errors.Join(
		s.result.writeJSON(filepath.Join(s.out, "bench.json")),
		os.WriteFile(filepath.Join(s.out, "bench.svg"), picture, 0o644), //nolint:gosec // to be read
	); err != nil {
		return 0, err
	}
	fmt.Fprintf(stdout, "\nWritten: %s and %s\n", filepath.Join(s.out, "bench.json"), filepath.Join(s.out, "bench.svg"))
	if s.docs != "" {
		if err := document.Write(s.docs, "bench", page(s.result)); err != nil {
			return 0, err
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(s.docs), pictureName), picture, 0o644); err != nil { //nolint:gosec // to be read
			return 0, err
		}
	}
	for _, c := range s.result.Claims {
		if c.Verdict == broken {
			failed++
		}
	}
	return failed, nil
}

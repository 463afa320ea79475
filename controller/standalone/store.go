package standalone

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// keepRuns is how many runs are kept that are over.
const keepRuns = 50

// Formats of state files.
const (
	runFormat      = "firebreak/run/v1"
	scheduleFormat = "firebreak/schedules/v1"
)

// store is the state folder:
//
//	lock             who uses it
//	runs/ID.json     a run, from before it changes anything until it is too old
//	runs/aside/      what could not be trusted
//	schedules.json   what is remembered of schedules
type store struct {
	dir string
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	rows    map[string]row // of all runs in the folder
	trouble string         // why the folder cannot be written to; "" while it can
	checked time.Time      // when that was last seen
}

// row is what is always at hand of a run.
type row struct {
	report run.Report // without clients
	ended  time.Time  // of the outage; zero: there was none yet
	on     bool
	over   bool
}

func rowOf(r *run.Run) row {
	report := r.Report()
	report.Clients, report.Timeline = nil, nil
	return row{report: report, ended: r.Ended, on: r.On(), over: r.Over()}
}

// openStore reads what is in a state folder. It returns the runs that are not
// over, and the IDs of those whose file had to be set aside: what they changed
// may not be put back yet.
func openStore(dir string, log *slog.Logger, now func() time.Time) (s *store, open []run.Run, orphans []string, err error) {
	s = &store{dir: dir, log: log, now: now, rows: map[string]row{}, checked: now()}
	if err := os.MkdirAll(s.runs(), 0o700); err != nil {
		return nil, nil, nil, fmt.Errorf("state folder: %w", err)
	}
	entries, err := os.ReadDir(s.runs())
	if err != nil {
		return nil, nil, nil, fmt.Errorf("state folder: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".new-") { // of a write that was not finished: what it was to replace stands
			_ = os.Remove(filepath.Join(s.runs(), name))
			continue
		}
		id, isRun := strings.CutSuffix(name, ".json")
		if !isRun || e.IsDir() {
			continue
		}
		r, err := s.read(id)
		if err != nil {
			if !s.aside(filepath.Join(s.runs(), name), err) {
				orphans = append(orphans, id)
			}
			continue
		}
		s.rows[id] = rowOf(&r)
		if !r.Over() {
			open = append(open, r)
		}
	}
	return s, open, append(orphans, s.asideLately()...), nil
}

// asideLately are the IDs of runs set aside so lately that what they changed
// may still be.
func (s *store) asideLately() []string {
	entries, _ := os.ReadDir(filepath.Join(s.runs(), "aside")) // there may be none
	var ids []string
	for _, e := range entries {
		id, at, found := strings.Cut(e.Name(), ".json.")
		t, err := time.Parse("20060102-150405.000000", at)
		if found && err == nil && s.now().Sub(t) < orphanFor {
			ids = append(ids, id)
		}
	}
	return ids
}

// aside sets a file aside, and reports whether it is gone from its place.
func (s *store) aside(path string, why error) bool {
	to, err := setAside(path, s.now())
	if err != nil {
		s.log.Error("a state file cannot be trusted, and cannot be moved away", "file", path, "why", why, "error", err)
		return false
	}
	s.log.Error("a state file cannot be trusted: it was set aside, and is not used", "file", path, "why", why, "now", to)
	return true
}

func (s *store) runs() string { return filepath.Join(s.dir, "runs") }

func (s *store) path(id string) string { return filepath.Join(s.runs(), id+".json") }

// read reads a run.
func (s *store) read(id string) (run.Run, error) {
	var r run.Run
	if p := protocol.CheckDrillID(id); p != nil {
		return r, p
	}
	if err := readState(s.path(id), runFormat, &r); err != nil {
		return r, err
	}
	switch {
	case r.Version != run.Version:
		return r, &damaged{fmt.Sprintf("it is of version %d, this controller knows %d", r.Version, run.Version)}
	case r.Spec.ID != id:
		return r, &damaged{fmt.Sprintf("it is of run %q, not of the one it is named after", r.Spec.ID)}
	}
	return r, nil
}

// save writes a run down before anything that it decided is done.
func (s *store) save(r *run.Run) error {
	if err := s.noted(writeState(s.path(r.Spec.ID), runFormat, r)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[r.Spec.ID] = rowOf(r)
	s.prune()
	return nil
}

// note keeps what is at hand of a run true while its file cannot be written: other
// runs are judged by it.
func (s *store) note(r *run.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[r.Spec.ID] = rowOf(r)
}

// prune drops the oldest runs that are over. s.mu is held.
func (s *store) prune() {
	ids := s.ids()
	kept := 0
	for _, id := range slices.Backward(ids) {
		if !s.rows[id].over {
			continue
		}
		if kept++; kept <= keepRuns {
			continue
		}
		if err := os.Remove(s.path(id)); err != nil && !missing(err) {
			s.log.Warn("an old run cannot be removed", "run", id, "error", err)
			continue
		}
		delete(s.rows, id)
	}
}

// ids from the oldest to the newest: they begin with the time. s.mu is held.
func (s *store) ids() []string {
	ids := make([]string, 0, len(s.rows))
	for id := range s.rows {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// list are all runs, newest first.
func (s *store) list() []row {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []row
	for _, id := range slices.Backward(s.ids()) {
		out = append(out, s.rows[id])
	}
	return out
}

// has reports whether a run of that ID is ours.
func (s *store) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.rows[id]
	return ok
}

// memories of schedules. A damaged file is set aside: a schedule then counts as
// new, and keeps 7 days away from the runs that are known.
func (s *store) memories() map[string]run.Memory {
	out := map[string]run.Memory{}
	path := filepath.Join(s.dir, "schedules.json")
	err := readState(path, scheduleFormat, &out)
	var bad *damaged
	switch {
	case missing(err):
		return out
	case errors.As(err, &bad):
		s.aside(path, err)
		return map[string]run.Memory{}
	case err != nil:
		s.log.Error("what is remembered of schedules cannot be read", "file", path, "error", err)
	}
	if out == nil {
		out = map[string]run.Memory{}
	}
	return out
}

func (s *store) saveMemories(m map[string]run.Memory) error {
	return s.noted(writeState(filepath.Join(s.dir, "schedules.json"), scheduleFormat, m))
}

package standalone

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func aRun(n int, over bool) run.Run {
	r := run.New(run.Spec{ID: fmt.Sprintf("2026113%d-%06d-ns1-abcd", n%10, n), Fleet: "office", Server: "ns1"}, time.Unix(1_800_000_000, 0).UTC())
	if over {
		r.Phase, r.Outcome, r.Amended = run.Done, run.Passed, true
	}
	return r
}

func TestStoreKeepsFifty(t *testing.T) {
	dir := t.TempDir()
	s, _, _, err := openStore(dir, quiet(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	open := run.New(run.Spec{ID: "20200101-000000-ns1-open"}, time.Now())
	if err := s.save(&open); err != nil {
		t.Fatal(err)
	}
	for i := range keepRuns + 10 {
		r := aRun(i, true)
		r.Spec.ID = fmt.Sprintf("20261130-%06d-ns1-abcd", i)
		if err := s.save(&r); err != nil {
			t.Fatal(err)
		}
	}
	s, unfinished, orphans, err := openStore(dir, quiet(), time.Now)
	if err != nil || len(orphans) != 0 {
		t.Fatal(err, orphans)
	}
	if list := s.list(); len(list) != keepRuns+1 || list[0].report.ID != "20261130-000059-ns1-abcd" {
		t.Errorf("%d runs, newest %s", len(list), list[0].report.ID)
	}
	if len(unfinished) != 1 || unfinished[0].Spec.ID != open.Spec.ID {
		t.Errorf("unfinished: %+v", unfinished)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "runs", ".new-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A file that is another run's, or was left in the middle of a write.
func TestStoreOddFiles(t *testing.T) {
	dir := t.TempDir()
	s, _, _, err := openStore(dir, quiet(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	r := aRun(1, true)
	if err := writeState(s.path("20261130-000001-ns1-zzzz"), runFormat, &r); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".new-123", "UPPER.json", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, "runs", name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, open, orphans, err := openStore(dir, quiet(), time.Now)
	if err != nil || len(open) != 0 || len(orphans) != 2 || len(s.list()) != 0 {
		t.Errorf("%v open %v orphans %v", err, open, orphans)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs", "notes.txt")); err != nil {
		t.Error("somebody's notes are gone")
	}
	// They are known for a while, over further restarts.
	if _, _, orphans, _ = openStore(dir, quiet(), time.Now); len(orphans) != 2 {
		t.Errorf("forgotten: %v", orphans)
	}
	later := func() time.Time { return time.Now().Add(2 * orphanFor) }
	if _, _, orphans, _ = openStore(dir, quiet(), later); len(orphans) != 0 {
		t.Errorf("kept for ever: %v", orphans)
	}
}

func TestMemories(t *testing.T) {
	dir := t.TempDir()
	s, _, _, err := openStore(dir, quiet(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if m := s.memories(); len(m) != 0 {
		t.Errorf("%v", m)
	}
	want := run.Memory{Chance: "2026-11", Done: true, LastRun: "x", LastAt: time.Unix(1_800_000_000, 0).UTC()}
	if err := s.saveMemories(map[string]run.Memory{"a": want}); err != nil {
		t.Fatal(err)
	}
	if m := s.memories(); m["a"] != want {
		t.Errorf("%+v", m)
	}
	path := filepath.Join(dir, "schedules.json")
	data, _ := os.ReadFile(path)
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), "true", "false", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if m := s.memories(); len(m) != 0 {
		t.Errorf("an edited file was trusted: %v", m)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it was not set aside")
	}
}

func TestTimings(t *testing.T) {
	env := func(kv ...string) func(string) string {
		return func(k string) string {
			for i := 0; i < len(kv); i += 2 {
				if kv[i] == k {
					return kv[i+1]
				}
			}
			return ""
		}
	}
	got, err := TimingsFrom(env(), false)
	if err != nil || got != run.DefaultTimings {
		t.Errorf("%+v %v", got, err)
	}
	got, err = TimingsFrom(env(EnvReading, "2", EnvReturn, "0", EnvIgnoreHealth, "1"), true)
	if err != nil || got.ReadingSeconds != 2 || got.ReturnSeconds != 0 || got.GapSeconds != 600 || !got.IgnoreHealth {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range [][]string{{EnvGap, "-1"}, {EnvGap, "601"}, {EnvTail, "soon"}, {EnvIgnoreHealth, "1"}, {EnvIgnoreHealth, "maybe"}} {
		if _, err := TimingsFrom(env(bad...), false); err == nil || !strings.Contains(err.Error(), bad[0]) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func FuzzState(f *testing.F) {
	dir := f.TempDir()
	r := aRun(1, false)
	if err := writeState(filepath.Join(dir, "x"), runFormat, &r); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, "x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(`{"format":"firebreak/run/v1","sha256":"","content":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r run.Run
		if parseState(data, runFormat, &r) != nil {
			return
		}
		// What is trusted can be driven.
		r.Needs(time.Now())
		r.Report()
		run.Step(r, run.Observation{Restarted: true}, time.Now())
	})
}

// A variable with a name like ours that is none is found, whatever its value.
func TestCheckEnviron(t *testing.T) {
	if err := CheckEnviron([]string{"HOME=/root", EnvGap + "=0", EnvIgnoreHealth + "=", "FIREBREAK_CONTROLLER=x", "MY_" + EnvGap + "S=1"}); err != nil {
		t.Error(err)
	}
	err := CheckEnviron([]string{"FIREBREAK_DRILL_GAP_SECOND=0", EnvTail + "=1", "FIREBREAK_DRILL_=", "FIREBREAK_DRILL_reading_SECONDS=1"})
	if err == nil {
		t.Fatal("nothing was found")
	}
	for _, want := range []string{`GAP_SECOND: there is no such variable: did you mean "` + EnvGap + `"?`, "FIREBREAK_DRILL_: there", "reading_SECONDS"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), EnvTail+":") {
		t.Error(err)
	}
}

// A list says, as the report does, that what was lost is an estimate.
func TestListSaysSampled(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	lost := 14
	old := run.New(run.Spec{ID: "20261130-031500-ns1-aaaa", Fleet: "office", Server: "ns1", Stage: run.StageServer}, time.Now().Add(-time.Hour))
	old.Phase, old.Outcome, old.Amended = run.Done, run.Passed, true
	old.Clients = []run.ClientReport{{Address: "192.0.2.7", Verdict: run.Followed, Drilled: 900, DrilledQuestions: 800, Lost: &lost, LostSampled: true}}
	if err := r.store.save(&old); err != nil {
		t.Fatal(err)
	}
	list := decodeAs[view.DrillList](t, r.as("vera")("GET", view.PathDrills, ""))
	if len(list.Drills) != 1 || !list.Drills[0].LostSampled {
		t.Errorf("%+v", list.Drills)
	}
}

package standalone

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/fleet/fleettest"
	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// out reports whether ns1 is being drilled.
func (p *place) out() bool {
	d := p.servers[0].Shape().State.Drill
	return d != nil && d.Ended == nil
}

func (p *place) recording() (on []string) {
	for _, s := range p.servers {
		if rec := s.Shape().State.Recording; rec != nil && !rec.Frozen {
			on = append(on, s.Name)
		}
	}
	return on
}

func (r *running) begin() run.Report {
	r.p.t.Helper()
	a := r.as("olga")("POST", drillNS1, everyone)
	if a.status != http.StatusAccepted {
		r.p.t.Fatalf("%d: %s", a.status, a.body)
	}
	report := decodeAs[run.Report](r.p.t, a)
	eventually(r.p.t, 8*time.Second, "ns1 is out", r.p.out)
	return report
}

// final waits for the report of a run that has an outcome.
func (r *running) final(id string) run.Report {
	r.p.t.Helper()
	var report run.Report
	eventually(r.p.t, 30*time.Second, "run "+id+" is done", func() bool {
		report = decodeAs[run.Report](r.p.t, r.as("vera")("GET", view.PathDrills+"/"+id, ""))
		return report.Phase.Final()
	})
	return report
}

func TestOneAtATime(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for _, server := range []string{"ns1", "ns2", "ns1", "ns2"} {
		call := r.as("olga")
		wg.Go(func() {
			a := call("POST", "/api/v1/servers/"+server+"/drill", everyone)
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
			if a.status == 409 {
				if q := a.problem(t); q.Reason != run.DrillRunning {
					t.Errorf("%s", a.body)
				}
			}
		})
	}
	wg.Wait()
	if statuses[202] != 1 || statuses[409] != 3 {
		t.Errorf("%v", statuses)
	}
}

func TestStop(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	report := r.begin()
	if len(p.recording()) != 2 {
		t.Errorf("recording: %v", p.recording())
	}
	if q := r.as("olga")("DELETE", "/api/v1/servers/ns2/drill", "").problem(t); q.Status != 404 {
		t.Errorf("%+v", q)
	}
	on := decodeAs[run.Report](t, r.as("vera")("GET", drillNS1, ""))
	if on.ID != report.ID || on.Phase != run.Out {
		t.Errorf("%+v", on)
	}
	began := time.Now()
	stopped := decodeAs[run.Report](t, r.as("olga")("DELETE", drillNS1, `{"why":"enough"}`))
	if p.out() || time.Since(began) > 2*time.Second || stopped.Outcome != run.Stopped || stopped.Reason != run.StoppedByCaller {
		t.Errorf("out %v after %s: %s %s", p.out(), time.Since(began), stopped.Outcome, stopped.Reason)
	}
	done := r.final(report.ID)
	if done.Outcome != run.Stopped || !strings.Contains(done.Message, "enough") {
		t.Errorf("%s %s", done.Outcome, done.Message)
	}
	eventually(t, 5*time.Second, "nothing is recorded any more", func() bool { return len(p.recording()) == 0 })
	for _, want := range [][]string{{"msg=start", "by=olga", report.ID}, {"msg=stop", "by=olga", "why=enough"}} {
		if p.log.count(append(want, "audit=true")...) != 1 {
			t.Errorf("no audit line %v in\n%s", want, p.log)
		}
	}
	html := r.as("vera")("GET", view.PathDrills+"/"+report.ID+"/html", "")
	if html.status != 200 || !strings.Contains(string(html.body), report.ID) || html.header.Get("Content-Security-Policy") == "" {
		t.Errorf("%d %.100s", html.status, html.body)
	}
	list := decodeAs[view.DrillList](t, r.as("vera")("GET", view.PathDrills, ""))
	if len(list.Drills) != 1 || list.Drills[0].Outcome != run.Stopped {
		t.Errorf("%+v", list)
	}
	if text := string(r.as("vera")("GET", "/metrics", "").body); !strings.Contains(text, `firebreak_drill_runs_total{fleet="office",outcome="stopped"} 1`) || !strings.Contains(text, "firebreak_drill_last_run_lost") {
		t.Error("not in the metrics")
	}
}

// Another controller was quicker on ns2, and ns1 is slow to hear: what is asked
// of it late is taken back all the same.
func TestGivesWay(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	p.servers[0].Edit(func(s *fleettest.Shape) { s.SlowRecord = 700 * time.Millisecond })
	p.servers[1].Edit(func(s *fleettest.Shape) { s.Taken = "anothers" })
	a := r.as("olga")("POST", drillNS1, everyone)
	if a.status != http.StatusAccepted {
		t.Fatalf("%s", a.body)
	}
	done := r.final(decodeAs[run.Report](t, a).ID)
	if done.Outcome != run.Refusal || done.Reason != run.DrillRunning {
		t.Errorf("%s %s %s", done.Outcome, done.Reason, done.Message)
	}
	eventually(t, 5*time.Second, "the run is over", func() bool { return r.find(done.ID) == nil })
	if on := p.recording(); len(on) > 0 || p.out() {
		t.Errorf("recording: %v", on)
	}
	calls := p.servers[0].Calls()
	if len(calls) < 2 || !strings.HasPrefix(calls[0], "PUT /v1/recordings") || !strings.HasPrefix(calls[1], "DELETE /v1/recordings") {
		t.Errorf("%v", calls)
	}
	if old, err := r.store.read(done.ID); err != nil || !old.Over() {
		t.Errorf("on disk it is not over: %v", err)
	}
}

func TestTooSoonAfterwards(t *testing.T) {
	p := newPlace(t)
	delete(p.env, EnvGap)
	r := p.start()
	r.final(func() string {
		report := r.begin()
		r.as("olga")("DELETE", drillNS1, "")
		return report.ID
	}())
	if q := r.as("olga")("POST", drillNS1, everyone).problem(t); q.Reason != run.TooSoon {
		t.Errorf("%+v", q)
	}
	// And after a restart.
	r.stop()
	r = p.start()
	if q := r.as("olga")("POST", drillNS1, everyone).problem(t); q.Reason != run.TooSoon {
		t.Errorf("%+v", q)
	}
}

func TestSwitchedOff(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	report := r.begin()
	p.writeText("fleet: office\nservers: [") // broken: it changes nothing
	eventually(t, 3*time.Second, "the broken file is told of", func() bool { return p.log.count("not in order", "no YAML") == 1 })
	time.Sleep(1500 * time.Millisecond)
	if !p.out() || p.log.count("not in order") != 1 {
		t.Errorf("out: %v\n%s", p.out(), p.log)
	}
	p.write(false)
	eventually(t, 4*time.Second, "ns1 is back", func() bool { return !p.out() })
	if done := r.final(report.ID); done.Outcome != run.Stopped || done.Reason != run.SwitchedOff {
		t.Errorf("%s %s", done.Outcome, done.Reason)
	}
	if q := r.as("olga")("POST", drillNS1, everyone).problem(t); q.Reason != run.DrillsOff {
		t.Errorf("%+v", q)
	}
}

// A server that is added while a drill is on is watched when it is over.
func TestChangesWait(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	report := r.begin()
	p.servers = append(p.servers, fleettest.New(t, "ns3", "127.0.0.1", p.ca))
	p.write(true)
	eventually(t, 4*time.Second, "the change is told of", func() bool { return p.log.count("the rest when the drill is over") == 1 })
	if n := len(r.current().Config().Servers); n != 2 || !p.out() {
		t.Errorf("%d servers, out: %v", n, p.out())
	}
	r.as("olga")("DELETE", drillNS1, "")
	r.final(report.ID)
	eventually(t, 4*time.Second, "three servers", func() bool { return len(r.current().Config().Servers) == 3 })
}

func TestShutDownEndsTheDrill(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	report := r.begin()
	began := time.Now()
	r.stop()
	if p.out() || time.Since(began) > shutdownPatience {
		t.Errorf("out: %v after %s", p.out(), time.Since(began))
	}
	r = p.start() // it reads what is left to read
	if done := r.final(report.ID); done.Outcome != run.Stopped || done.Reason != run.StoppedByCaller {
		t.Errorf("%s %s %s", done.Outcome, done.Reason, done.Message)
	}
	eventually(t, 5*time.Second, "nothing is recorded any more", func() bool { return len(p.recording()) == 0 })
}

// crash leaves a run as a killed process does: nothing more is written or said.
func (r *running) crash() {
	r.p.t.Helper()
	files, err := filepath.Glob(filepath.Join(r.p.state, "runs", "*.json"))
	if err != nil {
		r.p.t.Fatal(err)
	}
	kept := map[string][]byte{}
	for _, f := range files {
		if kept[f], err = os.ReadFile(f); err != nil {
			r.p.t.Fatal(err)
		}
	}
	for _, d := range r.drives { // forget what is on: the shutdown ends nothing
		d.mu.Lock()
		d.run.Phase = run.Done
		d.run.Amended = true
		d.mu.Unlock()
	}
	r.stop()
	for f, data := range kept {
		if err := os.WriteFile(f, data, 0o600); err != nil {
			r.p.t.Fatal(err)
		}
	}
}

func TestKilledInMidDrill(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	report := r.begin()
	r.crash()
	if !p.out() {
		t.Fatal("the crash ended the drill; that is for the next controller")
	}
	r = p.start()
	eventually(t, 4*time.Second, "the drill is kept alive", func() bool { return slices.Contains(p.servers[0].Calls(), "POST /v1/drill/"+report.ID+"/renew") })
	if q := r.as("olga")("POST", "/api/v1/servers/ns2/drill", everyone).problem(t); q.Reason != run.DrillRunning {
		t.Errorf("%+v", q)
	}
	done := r.final(report.ID) // nobody asks these servers, so nothing can be noticed
	if done.Outcome != run.Failed || p.out() {
		t.Errorf("%s %s, out: %v", done.Outcome, done.Reason, p.out())
	}
	eventually(t, 5*time.Second, "nothing is recorded any more", func() bool { return len(p.recording()) == 0 })
}

// A state file that cannot be trusted is set aside; what its run left on the
// servers is ended, and what another controller left is not touched.
func TestDamagedStateInMidDrill(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"cut off": func(b []byte) []byte { return b[:len(b)/2] },
		"empty":   func([]byte) []byte { return nil },
		"edited": func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `"durationSeconds":15`, `"durationSeconds":99`, 1))
		},
		"of a future": func(b []byte) []byte {
			return []byte(strings.Replace(string(b), "firebreak/run/v1", "firebreak/run/v9", 1))
		},
		"not ours": func([]byte) []byte { return []byte("\x00\xff{}") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			r := p.start()
			report := r.begin()
			r.crash()
			if !p.out() { // a step that was under way undid what crash does, on a busy machine
				t.Skip("the controller ended its drill before it was gone: nothing is left behind")
			}
			path := filepath.Join(p.state, "runs", report.ID+".json")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			other := &protocol.DrillState{ID: "another-controllers", Started: now, EndsAt: now.Add(time.Minute), LeaseEnds: now.Add(time.Minute)}
			p.servers[1].Edit(func(s *fleettest.Shape) { s.State.Drill = other })
			r = p.start()
			eventually(t, 4*time.Second, "ns1 is back", func() bool { return !p.out() })
			eventually(t, 4*time.Second, "nothing is recorded any more", func() bool { return len(p.recording()) == 0 })
			if p.log.count("level=ERROR", "set aside", report.ID) != 1 {
				t.Errorf("no word of it in\n%s", p.log)
			}
			time.Sleep(2500 * time.Millisecond)                                     // what is known of a server may be that old: nothing is asked or said again
			byItself := p.servers[0].Shape().State.Drill.End != protocol.EndDeleted // where all this took longer than the drill
			for server, action := range map[string]string{"ns1": "end", "ns2": "unrecord"} {
				n := p.log.count("audit=true", "left behind", "server="+server, "action="+action)
				if n > 1 || n == 0 && !(action == "end" && byItself) {
					t.Errorf("%d audit lines of %s of %s, want 1", n, action, server)
				}
			}
			ends := 0
			for _, call := range p.servers[0].Calls() {
				if strings.HasPrefix(call, "DELETE /v1/drill/") {
					ends++
				}
			}
			if ends > 1 || ends == 0 && !byItself {
				t.Errorf("the drill was ended %d times: %v", ends, p.servers[0].Calls())
			}
			if d := p.servers[1].Shape().State.Drill; d.Ended != nil {
				t.Error("another controller's drill was ended")
			}
			servers := decodeAs[view.ServerList](t, r.as("vera")("GET", view.PathServers, ""))
			if servers.Servers[1].Drill == nil || servers.Servers[1].Drill.ID != other.ID {
				t.Error("another controller's drill is not shown")
			}
			if q := r.as("olga")("POST", drillNS1, everyone).problem(t); q.Reason != run.DrillRunning {
				t.Errorf("%+v", q)
			}
			aside, _ := filepath.Glob(filepath.Join(p.state, "runs", "aside", report.ID+"*"))
			if len(aside) != 1 {
				t.Errorf("aside: %v", aside)
			}
		})
	}
}

// A run that ends while the disk is full is final all the same, keeps nothing from
// starting but by the disk, and is written down once there is room.
func TestDiskFullAtTheEnd(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	report := r.begin()
	runs := filepath.Join(p.state, "runs")
	if err := os.Rename(runs, runs+".gone"); err != nil {
		t.Fatal(err)
	}
	r.as("olga")("DELETE", drillNS1, "")
	if done := r.final(report.ID); done.Reason != run.StoppedByCaller || p.out() {
		t.Errorf("%s, out: %v", done.Reason, p.out())
	}
	eventually(t, 5*time.Second, "nothing is recorded any more", func() bool { return len(p.recording()) == 0 })
	eventually(t, 5*time.Second, "the run is over but for its file", func() bool { d := r.find(report.ID); return d == nil || d.snapshot().Over() })
	if q := r.as("olga")("POST", drillNS1, everyone).problem(t); q.Reason != run.StateNotWritable {
		t.Errorf("the next one: %+v", q)
	}
	list := decodeAs[view.DrillList](t, r.as("vera")("GET", view.PathDrills, ""))
	if len(list.Drills) != 1 || list.Drills[0].Outcome != run.Stopped {
		t.Errorf("listed as %+v", list.Drills)
	}
	if err := os.Rename(runs+".gone", runs); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "it is written down", func() bool { return r.find(report.ID) == nil })
	if old, err := r.store.read(report.ID); err != nil || !old.Over() || old.Reason != run.StoppedByCaller {
		t.Errorf("on disk it is %s %s: %v", old.Phase, old.Reason, err)
	}
}

// Who holds a folder is noted where there is room for it; without room the
// controller starts all the same, since it may have something to put back.
func TestLockNeedsNoRoom(t *testing.T) {
	dir := t.TempDir()
	// Every write to it fails for want of room.
	if err := os.Symlink("/dev/full", filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	f, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func TestOneControllerPerFolder(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	if _, err := p.open(); err == nil || !strings.Contains(err.Error(), "another controller uses it") {
		t.Errorf("%v", err)
	}
	r.stop()
	p.start()
}

func TestUnixSocket(t *testing.T) {
	p := newPlace(t)
	text, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	from, to := strings.Index(string(text), "api:"), strings.Index(string(text), "groups:")
	p.writeText(string(text[:from]) + string(text[to:]))
	r := p.start()
	path := filepath.Join(p.state, "api.sock")
	if r.apis[0].where != "unix://"+path {
		t.Fatal(r.apis[0].where)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	resp, err := client.Post("http://x"+drillNS1, "application/json", strings.NewReader(everyone))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var report run.Report
	if err := json.NewDecoder(resp.Body).Decode(&report); err != nil || resp.StatusCode != 202 || !strings.HasPrefix(report.Spec.By, "uid:") {
		t.Errorf("%d %v %q", resp.StatusCode, err, report.Spec.By)
	}
}

func TestScheduleStartsAndIsRefused(t *testing.T) {
	p := newPlace(t)
	p.more = "schedules:\n  - {name: always, every: weekly, startTime: \"00:00\", endTime: \"00:00\", servers: [ns1], everyone: true, durationSeconds: 15, suspend: false}\n" +
		"  - {name: nobody, every: weekly, startTime: \"00:00\", endTime: \"00:00\", servers: [ns1], clients: [198.51.100.1], suspend: false}\n" +
		"  - {name: asleep, every: weekly, startTime: \"00:00\", endTime: \"00:00\", servers: [ns1], everyone: true}\n"
	p.write(true)
	r := p.start()
	eventually(t, 12*time.Second, "the schedule's drill is out", p.out)
	on := decodeAs[run.Report](t, r.as("vera")("GET", drillNS1, ""))
	if on.Spec.By != "schedule/always" || on.Spec.Schedule != "always" || on.Spec.Seconds != 15 {
		t.Errorf("%+v", on.Spec)
	}
	if m := r.memory("always"); !m.Done || m.LastRun != on.ID {
		t.Errorf("%+v", m)
	}
	eventually(t, 8*time.Second, "the other one's try is remembered", func() bool { return r.memory("nobody").Reason != "" })
	if m := r.memory("asleep"); !m.Tried.IsZero() {
		t.Errorf("a suspended one was tried: %+v", m)
	}
	if text := string(r.as("vera")("GET", "/metrics", "").body); !strings.Contains(text, `firebreak_drill_schedule_last_timestamp_seconds{fleet="office",schedule="always"} 1`) {
		t.Error("not in the metrics")
	}
	r.stop()
	r = p.start()
	if m := r.memory("always"); !m.Done || m.LastRun != on.ID {
		t.Errorf("forgotten over a restart: %+v", m)
	}
}

func TestRefusedRunIsKept(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	s := run.Schedule{Name: "x", Servers: []string{"ns1"}, Everyone: true}
	if err := r.refusedRun(s.Spec("ns1"), run.LastHealthy, "no other"); err != nil {
		t.Fatal(err)
	}
	list := decodeAs[view.DrillList](t, r.as("vera")("GET", view.PathDrills, ""))
	if len(list.Drills) != 1 || list.Drills[0].Outcome != run.Refusal || list.Drills[0].Schedule != "x" {
		t.Errorf("%+v", list)
	}
	if q := r.as("olga")("POST", drillNS1, everyone); q.status != 202 {
		t.Errorf("a refused run speaks against the next one: %s", q.body)
	}
}

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Clients that have a second server follow, and the drill passes: although that
// server is a spare, which nobody asked before.
func TestPassed(t *testing.T) {
	l := newLab(t, 81)
	// Who returned is told from what was asked later than 5 s after the end.
	c := l.controller("c", append(short(), "FIREBREAK_DRILL_RETURN_SECONDS=8"))
	a, b := l.stub(10, "ns1", "ns2"), l.stub(11, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	if a.answeredBy("ns2")+b.answeredBy("ns2") != 0 {
		t.Fatal("ns2 is no spare")
	}
	report := c.final(c.begin(15), time.Minute)
	if report.Outcome != run.Passed || report.Reason != run.FailoverWorked {
		t.Fatalf("%s %s: %s\n%+v", report.Outcome, report.Reason, report.Message, report.Findings)
	}
	verdicts := map[string]run.Verdict{}
	for _, x := range report.Clients {
		verdicts[x.Address] = x.Verdict
		if x.Verdict == run.Followed && (x.FailoverSeconds == nil || *x.FailoverSeconds > 2) {
			t.Errorf("%s took %v s", x.Address, x.FailoverSeconds)
		}
	}
	for _, host := range []int{10, 11} {
		if v := verdicts[l.ip(host)]; v != run.Followed {
			t.Errorf("%s: %q", l.ip(host), v)
		}
	}
	if report.Verdicts.Stuck != 0 || report.TimeToMoveSeconds == nil || report.Lost == nil || *report.Lost > 4 {
		t.Errorf("%+v moved %v, lost %v", report.Verdicts, report.TimeToMoveSeconds, report.Lost)
	}
	// The controller asked both once a second all the while, and is no client.
	var list view.ClientList
	c.call("GET", view.PathClients, nil, &list)
	for _, x := range list.Clients {
		if x.Address == "127.0.0.1" {
			t.Errorf("the controller's probes count as a client: %+v", x)
		}
	}
	if len(list.Clients) < 2 {
		t.Errorf("%d clients are known", len(list.Clients))
	}
	l.clean(8 * time.Second)
	eventuallyReturned(l, c, report.ID)
}

// eventuallyReturned: both clients ask ns1 first, so both come back.
func eventuallyReturned(l *lab, c *controller, id string) {
	l.t.Helper()
	l.eventually(15*time.Second, "the report is amended", func() bool {
		var report run.Report
		c.call("GET", view.PathDrills+"/"+id, nil, &report)
		n := 0
		for _, x := range report.Clients {
			if x.Returned == run.Returned {
				n++
			}
		}
		return report.Amended && n == 2
	})
}

// A client that has no second server is stuck, and the drill says so.
func TestStuck(t *testing.T) {
	l := newLab(t, 82)
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	l.stub(11, "ns1")
	time.Sleep(2 * time.Second)
	report := c.final(c.begin(15), time.Minute)
	if report.Outcome != run.Failed || report.Verdicts.Stuck != 1 || report.Verdicts.Followed != 1 {
		t.Errorf("%s %s: %+v", report.Outcome, report.Reason, report.Verdicts)
	}
}

// The controller is killed and nobody starts another: the server answers again
// within its lease. The next controller finds the run ended, and leaves nothing.
func TestControllerKilledForGood(t *testing.T) {
	l := newLab(t, 83)
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	id := c.begin(90)
	time.Sleep(2 * time.Second)
	c.kill()
	killed := time.Now()
	if l.answers("ns1") {
		t.Fatal("ns1 is not out")
	}
	l.eventually(31*time.Second, "ns1 answers again", func() bool { return l.answers("ns1") })
	t.Logf("ns1 answered again %s after the kill", time.Since(killed).Round(100*time.Millisecond))
	c = l.controller("c", short())
	report := c.final(id, 30*time.Second)
	if report.Outcome != run.Stopped || report.Reason != run.ControllerLost {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	l.clean(10 * time.Second)
}

// The controller is killed and started again: it goes on with the run.
func TestControllerRestarted(t *testing.T) {
	l := newLab(t, 84)
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	id := c.begin(20)
	time.Sleep(3 * time.Second)
	c.kill()
	c = l.controller("c", short())
	if got := l.drilled("ns1"); got != id {
		t.Errorf("drilled: %q", got)
	}
	report := c.final(id, time.Minute)
	if report.Outcome != run.Passed {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	l.clean(10 * time.Second)
}

// The state file is cut off by the crash: the run is lost, its drill is ended.
func TestStateLostInMidDrill(t *testing.T) {
	l := newLab(t, 85)
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	id := c.begin(120)
	c.kill()
	path := filepath.Join(l.dir, "c", "runs", id+".json")
	if err := os.Truncate(path, 1000); err != nil {
		t.Fatal(err)
	}
	l.controller("c", short())
	l.eventually(5*time.Second, "ns1 answers again", func() bool { return l.answers("ns1") })
	l.clean(5 * time.Second)
}

// SIGTERM ends the drill at once.
func TestTerminated(t *testing.T) {
	l := newLab(t, 86)
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	c.begin(120)
	c.signal(syscall.SIGTERM)
	l.eventually(3*time.Second, "ns1 answers again", func() bool { return l.answers("ns1") })
	select {
	case <-c.done:
	case <-time.After(12 * time.Second):
		t.Error("the controller does not end")
	}
}

// Two controllers that do not know of each other order drills in the same
// millisecond: at no time are two servers out.
func TestTwoControllers(t *testing.T) {
	l := newLab(t, 87)
	env := append(short(), "FIREBREAK_DRILL_READING_SECONDS=0")
	a, b := l.controller("a", env), l.controller("b", env)
	l.stub(10, "ns1", "ns2")
	l.stub(11, "ns2", "ns1")
	time.Sleep(2 * time.Second)
	var stop = make(chan struct{})
	var watching sync.WaitGroup
	most := 0
	watching.Go(func() {
		for {
			n := 0
			for _, name := range []string{"ns1", "ns2"} {
				if l.drilled(name) != "" {
					n++
				}
			}
			most = max(most, n)
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	runs := 0
	for round := range 4 {
		var ordering sync.WaitGroup
		at := time.Now().Add(200 * time.Millisecond).Truncate(time.Millisecond)
		for c, server := range map[*controller]string{a: "ns1", b: "ns2"} {
			ordering.Go(func() {
				time.Sleep(time.Until(at))
				var report run.Report
				c.call("POST", drill(server), view.DrillRequest{Everyone: true, DurationSeconds: 15, Reason: "race"}, &report)
			})
		}
		ordering.Wait()
		time.Sleep(4 * time.Second)
		if l.drilled("ns1") != "" || l.drilled("ns2") != "" {
			runs++
		}
		for c, server := range map[*controller]string{a: "ns1", b: "ns2"} {
			var report run.Report
			c.call("DELETE", drill(server), nil, &report)
		}
		l.clean(20 * time.Second)
		t.Logf("round %d: %d runs so far", round, runs)
	}
	close(stop)
	watching.Wait()
	if most > 1 {
		t.Error("two servers were out at once")
	}
}

// The drilled server's process is restarted: that cancels the drill.
func TestServerRestarted(t *testing.T) {
	l := newLab(t, 88)
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	id := c.begin(120)
	time.Sleep(time.Second)
	l.ns["ns1"].kill()
	l.server("ns1")
	report := c.final(id, 30*time.Second)
	if report.Outcome != run.Stopped || report.Reason != run.ServerRestarted {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	l.clean(10 * time.Second)
}

// A Corefile reload in the middle ends nothing; taking the plugin out does.
func TestReload(t *testing.T) {
	l := newLab(t, 89)
	l.ns["ns1"].kill()
	l.corefile("ns1", "reload 2s 1s")
	l.server("ns1")
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	id := c.begin(60)
	boot := l.state("ns1").BootID
	l.corefile("ns1", "reload 2s 1s\n acl {\n allow net 0.0.0.0/0\n }")
	l.eventually(10*time.Second, "ns1 has reloaded", func() bool {
		log, err := os.ReadFile(filepath.Join(l.dir, "ns1.log"))
		return err == nil && strings.Contains(string(log), "Reloading complete")
	})
	time.Sleep(2 * time.Second)
	if got := l.drilled("ns1"); got != id || l.state("ns1").BootID != boot {
		t.Errorf("drilled: %q", got)
	}
	if l.answers("ns1") {
		t.Error("ns1 answers")
	}
	text, err := os.ReadFile(filepath.Join(l.dir, "ns1.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.dir, "ns1.conf"), []byte(strings.Replace(string(text), "    drill\n", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	l.eventually(10*time.Second, "ns1 answers again", func() bool { return l.answers("ns1") })
	if report := c.final(id, 20*time.Second); report.Outcome != run.Stopped || report.Reason != run.SwitchedOff {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	if why := c.refused("ns1", view.DrillRequest{Everyone: true, Reason: "x"}); why != run.DrillsOff {
		t.Errorf("refused with %s", why)
	}
}

// Errors on the survivor stop the drill within three seconds.
func TestErrorsOnSurvivors(t *testing.T) {
	l := newLab(t, 90)
	c := l.controller("c", short())
	stubs := []*stub{l.stub(10, "ns1", "ns2"), l.stub(11, "ns1", "ns2"), l.stub(12, "ns2")}
	time.Sleep(2 * time.Second)
	id := c.begin(120)
	time.Sleep(2 * time.Second)
	began := time.Now()
	for _, s := range stubs {
		s.ask("bad.example.")
	}
	l.eventually(3*time.Second, "the drill is stopped", func() bool { return l.drilled("ns1") == "" })
	t.Logf("stopped %s after errors began", time.Since(began).Round(100*time.Millisecond))
	report := c.final(id, 30*time.Second)
	if report.Outcome != run.Failed || report.Reason != run.ErrorsOnSurvivors {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
}

// What speaks against a drill is asked of the real servers.
func TestRefusals(t *testing.T) {
	l := newLab(t, 91)
	env := append(short(), "FIREBREAK_DRILL_GAP_SECONDS=600")
	c := l.controller("c", env)
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	ask := view.DrillRequest{Everyone: true, DurationSeconds: 15, Reason: "x"}

	if why := c.refused("ns1", view.DrillRequest{Clients: []string{"198.51.100.7"}, DurationSeconds: 15, Reason: "x"}); why != run.NoTargets {
		t.Errorf("nobody: %s", why)
	}
	var plan run.Plan
	dry := ask
	dry.DryRun = true
	if c.call("POST", drill("ns1"), dry, &plan); !plan.Allowed || plan.TargetsTotal < 1 {
		t.Errorf("%+v", plan)
	}
	if l.drilled("ns1") != "" || l.state("ns2").Recording != nil {
		t.Error("a dry run changed something")
	}

	id := c.begin(60)
	if why := c.refused("ns2", ask); why != run.DrillRunning {
		t.Errorf("while one is on: %s", why)
	}
	var report run.Report
	if status := c.call("DELETE", drill("ns1"), view.StopRequest{Why: "enough"}, &report); status != http.StatusAccepted || !l.answers("ns1") {
		t.Errorf("%d, or ns1 does not answer after a stop", status)
	}
	c.final(id, 30*time.Second)
	l.clean(10 * time.Second)
	if why := c.refused("ns1", ask); why != run.TooSoon {
		t.Errorf("right after one: %s", why)
	}
}

// No other server answers: no drill.
func TestLastHealthy(t *testing.T) {
	l := newLab(t, 92)
	l.ns["ns2"].kill()
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	if why := c.refused("ns1", view.DrillRequest{Everyone: true, DurationSeconds: 15, Reason: "x"}); why != run.LastHealthy {
		t.Errorf("refused with %s", why)
	}
	if l.drilled("ns1") != "" {
		t.Error("ns1 is out")
	}
}

// Only the named are drilled; in mode refused they are told so.
func TestOnlyTheNamed(t *testing.T) {
	l := newLab(t, 93)
	l.more = "groups: {mobile: [" + l.ip(10) + "]}\n"
	c := l.controller("c", short())
	l.stub(10, "ns1", "ns2")
	l.stub(11, "ns1", "ns2")
	time.Sleep(2 * time.Second)
	var report run.Report
	c.call("POST", drill("ns1"), view.DrillRequest{Clients: []string{"mobile"}, Mode: protocol.ModeRefused, DurationSeconds: 15, Reason: "x"}, &report)
	l.eventually(10*time.Second, "ns1 is out", func() bool { return l.drilled("ns1") != "" })
	if r, err := l.ask(11, "ns1", "www.example.", time.Second); err != nil || r.Rcode != 0 {
		t.Errorf("a client that was not named: %v %v", r, err)
	}
	if r, err := l.ask(10, "ns1", "www.example.", time.Second); err != nil || r.Rcode != 5 {
		t.Errorf("a client that was named: %v %v", r, err)
	}
	var stopped run.Report
	c.call("DELETE", drill("ns1"), nil, &stopped)
	done := c.final(report.ID, 30*time.Second)
	for _, x := range done.Clients {
		if x.Address == l.ip(11) && x.Drilled > 0 {
			t.Errorf("%+v", x)
		}
	}
}

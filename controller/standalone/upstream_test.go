package standalone

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

const (
	drillNS2     = "/api/v1/servers/ns2/drill"
	loseUpstream = `{"upstream":"10.0.0.53","durationSeconds":15,"reason":"test"}`
)

// cache makes one of the servers a node cache.
func (p *place) cache(i int) { p.servers[i].Cache("10.0.0.53:53", "10.0.0.54:53") }

// away reports whether ns2 is without an upstream.
func (p *place) away() bool {
	o := p.servers[1].Shape().State.Outage
	return o != nil && o.Ended == nil
}

// TestUpstream: an upstream's drill from its plan to its report over the API, to
// the server's calls and in the metrics; stopped by somebody.
func TestUpstream(t *testing.T) {
	p := newPlace(t)
	p.cache(1)
	r := p.start()
	olga := r.as("olga")
	plan := decodeAs[run.Plan](t, olga("POST", drillNS2, strings.Replace(loseUpstream, "{", `{"dryRun":true,`, 1)))
	if !plan.Allowed || plan.Spec.Upstream != "10.0.0.53:53" || plan.Spec.Mode != run.ModeBlackhole || !plan.Spec.Everyone || len(plan.Targets) != 1 {
		t.Errorf("%+v", plan)
	}
	if touched := p.touched(); len(touched) > 0 {
		t.Errorf("a plan changed something: %v", touched)
	}
	a := olga("POST", drillNS2, loseUpstream)
	report := decodeAs[run.Report](t, a)
	if a.status != http.StatusAccepted || report.Upstreams == nil {
		t.Fatalf("%d: %s", a.status, a.body)
	}
	eventually(t, 8*time.Second, "the upstream is away", p.away)
	o := p.servers[1].Shape().State.Outage
	if o.Address != "10.0.0.53:53" || o.Kind != protocol.OutageBlackhole || o.LeaseEnds == nil {
		t.Errorf("%+v", o)
	}
	eventually(t, 4*time.Second, "the list of servers tells of it", func() bool {
		s := decodeAs[view.ServerList](t, olga("GET", view.PathServers, "")).Servers[1]
		return len(s.Upstreams) == 2 && s.Outage != nil && s.Outage.ID == report.ID
	})
	if q := olga("POST", drillNS1, everyone).problem(t); q.Reason != run.DrillRunning {
		t.Errorf("another one beside it: %+v", q)
	}
	if a := olga("DELETE", drillNS2, ""); a.status != http.StatusAccepted || p.away() {
		t.Errorf("%d, away: %v", a.status, p.away())
	}
	report = r.final(report.ID)
	if report.Outcome != run.Stopped || report.Reason != run.StoppedByCaller || len(report.Upstreams) != 2 || len(report.Clients) != 0 {
		t.Errorf("%+v", report)
	}
	list := decodeAs[view.DrillList](t, olga("GET", view.PathDrills, ""))
	if len(list.Drills) != 1 || list.Drills[0].Upstream != "10.0.0.53:53" {
		t.Errorf("%+v", list)
	}
	if m := string(olga("GET", "/metrics", "").body); !strings.Contains(m, `firebreak_drill_last_run_info{fleet="office",server="ns2",stage="upstream",upstream="10.0.0.53:53"} 1`) {
		t.Error("not in the metrics")
	}
	for _, c := range p.servers[1].Calls() {
		if strings.Contains(c, protocol.PathDrill) {
			t.Errorf("the server itself was drilled: %s", c)
		}
	}
}

// TestUpstreamStateLost: the run's file cannot be trusted any more; the outage
// that it left is ended.
func TestUpstreamStateLost(t *testing.T) {
	p := newPlace(t)
	p.cache(1)
	r := p.start()
	report := decodeAs[run.Report](t, r.as("olga")("POST", drillNS2, loseUpstream))
	eventually(t, 8*time.Second, "the upstream is away", p.away)
	r.crash()
	if err := os.Truncate(filepath.Join(p.state, "runs", report.ID+".json"), 100); err != nil {
		t.Fatal(err)
	}
	p.start()
	eventually(t, 4*time.Second, "the upstream is back", func() bool { return !p.away() })
	if o := p.servers[1].Shape().State.Outage; o.End != protocol.EndDeleted {
		t.Errorf("%+v", o)
	}
}

package standalone

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"firebreakdns.io/firebreak/controller/fleet"
	"firebreakdns.io/firebreak/controller/run"
)

// metrics are what is counted; what is known anyway is read when it is asked for.
type metrics struct {
	mu   sync.Mutex
	runs map[run.Outcome]float64 // since the process began
}

func newMetrics() *metrics {
	return &metrics{runs: map[run.Outcome]float64{run.Passed: 0, run.Failed: 0, run.Stopped: 0, run.Refusal: 0}}
}

func (m *metrics) ended(o run.Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs[o]++
}

func (m *metrics) handler(c *Controller) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{c}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorLog: nil})
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("firebreak_"+name, help, labels, nil)
}

// collector reads the controller when it is scraped. Labels are the fleet's
// servers and schedules, and constants: their number is that of the file.
type collector struct{ c *Controller }

// Describe says nothing: what there is depends on the fleet file.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (x collector) Collect(out chan<- prometheus.Metric) {
	c := x.c
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	config := c.newest()
	gauge(desc("build_info", "The version of this controller; always 1.", "version"), 1, fleet.Version())
	gauge(desc("drill_enabled", "1 while drills are switched on in the fleet file.", "fleet"), oneIf(config.Drills.Enabled), config.Fleet)
	c.metrics.mu.Lock()
	for outcome, n := range c.metrics.runs {
		out <- prometheus.MustNewConstMetric(desc("drill_runs_total", "Runs that ended, by outcome, since this process began.", "fleet", "outcome"), prometheus.CounterValue, n, config.Fleet, string(outcome))
	}
	c.metrics.mu.Unlock()
	on := ""
	if d := c.on(); d != nil {
		on = d.snapshot().Spec.Server
	}
	facts := c.current().Facts(c.now())
	for _, s := range facts.Servers {
		gauge(desc("drill_active", "1 while a drill of the server is on.", "fleet", "server"), oneIf(s.Name == on), config.Fleet, s.Name)
		gauge(desc("server_heard", "1 while the server's control endpoint answers.", "fleet", "server"), oneIf(s.Heard), config.Fleet, s.Name)
		gauge(desc("server_clock_offset_seconds", "The server's clock minus the controller's.", "fleet", "server"), float64(s.OffsetMs)/1000, config.Fleet, s.Name)
	}
	gauge(desc("state_writable", "1 while the state folder can be written to; else no drill starts, and reports wait in memory.", "fleet"), oneIf(c.store.bad() == ""), config.Fleet)
	for _, r := range c.runs() {
		if r.report.Outcome != "" && r.report.Phase.Final() && r.report.Outcome != run.Refusal {
			lastRun(gauge, config.Fleet, &r.report)
			break
		}
	}
	for _, s := range config.Schedules {
		m := c.memory(s.Name)
		gauge(desc("drill_schedule_last_timestamp_seconds", "When the schedule started its last drill; 0: never.", "fleet", "schedule"), unixSeconds(m.LastAt), config.Fleet, s.Name)
		gauge(desc("drill_schedule_next_timestamp_seconds", "When the schedule is tried next; 0: never.", "fleet", "schedule"), unixSeconds(s.Next(config.Fleet, m, c.now())), config.Fleet, s.Name)
	}
}

func lastRun(gauge func(*prometheus.Desc, float64, ...string), name string, r *run.Report) {
	at := r.Spec.Requested
	if r.Ended != nil {
		at = *r.Ended
	}
	gauge(desc("drill_last_run_timestamp_seconds", "When the outage of the last run ended.", "fleet", "server", "outcome"), unixSeconds(at), name, r.Server, string(r.Outcome))
	gauge(desc("drill_last_run_info", "What the last run took away: the server itself, or an upstream of it; always 1.", "fleet", "server", "stage", "upstream"), 1, name, r.Server, string(r.Spec.Stage), r.Spec.Upstream)
	for verdict, n := range map[run.Verdict]int{run.Followed: r.Verdicts.Followed, run.Stuck: r.Verdicts.Stuck, run.Quiet: r.Verdicts.Quiet, run.Elsewhere: r.Verdicts.Elsewhere, run.Unknown: r.Verdicts.Unknown} {
		gauge(desc("drill_last_run_clients", "Clients of the last run by verdict.", "fleet", "verdict"), float64(n), name, string(verdict))
	}
	if r.Lost != nil {
		gauge(desc("drill_last_run_lost", "Questions of the last run that were drilled and answered nowhere else; missing where that is not known.", "fleet"), float64(*r.Lost), name)
	}
	for _, x := range []struct {
		d *prometheus.Desc
		v *float64
	}{
		{desc("drill_last_run_coverage", "followed / (followed + stuck) of the last run; missing where nobody can be counted.", "fleet"), r.Coverage},
		{desc("drill_last_run_time_to_notice_seconds", "Until the outage of the last run was noticed; missing where it was not.", "fleet"), r.TimeToNoticeSeconds},
		{desc("drill_last_run_time_to_move_seconds", "Until traffic had moved in the last run; missing where it had not.", "fleet"), r.TimeToMoveSeconds},
	} {
		if x.v != nil {
			gauge(x.d, *x.v, name)
		}
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

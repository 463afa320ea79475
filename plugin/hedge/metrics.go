package hedge

import (
	"sync"
	"time"

	"firebreakdns.io/firebreak/plugin/hedge/engine"

	"github.com/coredns/coredns/plugin"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.NewCounterVec(prometheus.CounterOpts{Namespace: plugin.Namespace, Subsystem: pluginName, Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return promauto.NewGaugeVec(prometheus.GaugeOpts{Namespace: plugin.Namespace, Subsystem: pluginName, Name: name, Help: help}, labels)
}

var (
	questionsTotal = counter("questions_total", "Counter of questions that upstreams were to be asked.", "server", "zone")
	failuresTotal  = counter("failures_total", "Counter of questions that no upstream answered, by the reason.", "server", "zone", "reason")

	askedTotal = counter("asked_total", "Counter of what was sent to an upstream: for the first time, as a hedge, a retry, after a truncated answer, as a probe, or to find a loop.",
		"zone", "to", "transport", "why")
	durationSeconds = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "answer_duration_seconds",
		Help:      "Histogram of the time that a question waited for the upstream whose answer it got, hedges included.",
		Buckets:   []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 4},
	}, []string{"zone", "to"})
	lateTotal       = counter("late_answers_total", "Counter of answers that came after the client's deadline, and went to the cache.", "zone")
	deniedTotal     = counter("budget_denied_total", "Counter of questions that would have been asked of one more upstream, had there been budget for it.", "zone")
	ejectionsTotal  = counter("ejections_total", "Counter of ejections, by the cause.", "zone", "to", "transport", "cause")
	mismatchesTotal = counter("mismatches_total", "Counter of what came from an upstream and was no answer to what it was asked: late, or forged.", "zone", "to")
	sourceErrors    = counter("source_errors_total", "Counter of times that the addresses of upstreams could not be found out.", "zone", "source")

	ejectedGauge   = gauge("ejected", "Whether an upstream is not asked over a transport because it failed.", "zone", "to", "transport")
	upstreamsGauge = gauge("upstreams", "Upstreams that are known.", "zone")
	loopsGauge     = gauge("loop", "Whether what is sent to an upstream comes back to this server.", "zone", "to")
	outageGauge    = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "outage",
		Help: "Whether a drill has taken an upstream away.",
	})
)

// zoneMetrics count the questions that came to one server for one zone. They are
// looked up once.
type zoneMetrics struct {
	questions prometheus.Counter
	failures  [fails]prometheus.Counter
}

type serverZone struct{ server, zone string }

var zoneMetricsOf sync.Map // serverZone -> *zoneMetrics

func serverMetrics(server, zone string) *zoneMetrics {
	key := serverZone{server, zone}
	if m, ok := zoneMetricsOf.Load(key); ok {
		return m.(*zoneMetrics)
	}
	m := &zoneMetrics{questions: questionsTotal.WithLabelValues(server, zone)}
	for f := range fails {
		m.failures[f] = failuresTotal.WithLabelValues(server, zone, f.String())
	}
	got, _ := zoneMetricsOf.LoadOrStore(key, m)
	return got.(*zoneMetrics)
}

// upstreamMetrics count what was asked of one upstream. They are looked up once.
type upstreamMetrics struct {
	asked    [engine.TLS + 1][engine.Truncated + 1]prometheus.Counter
	duration prometheus.Observer
}

func (g *group) metricsOf(key string) *upstreamMetrics {
	if m, ok := g.answers.Load(key); ok {
		return m.(*upstreamMetrics)
	}
	m := &upstreamMetrics{duration: durationSeconds.WithLabelValues(g.options.from, key)}
	for _, t := range g.options.transports(key) {
		for why := engine.First; why <= engine.Truncated; why++ {
			m.asked[t][why] = askedTotal.WithLabelValues(g.options.from, key, t.String(), why.String())
		}
		ejectedGauge.WithLabelValues(g.options.from, key, t.String())
		for _, cause := range []engine.Cause{engine.Silent, engine.Broken, engine.BadAnswers} {
			ejectionsTotal.WithLabelValues(g.options.from, key, t.String(), cause.String())
		}
	}
	got, _ := g.answers.LoadOrStore(key, m)
	return got.(*upstreamMetrics)
}

func (g *group) asked(a *engine.Attempt) { g.metricsOf(a.Key).asked[a.Transport][a.Reason].Inc() }

func (g *group) answered(a *engine.Attempt, since time.Time) {
	g.metricsOf(a.Key).duration.Observe(time.Since(since).Seconds())
}

// forgetMetrics drops the series of an upstream that is gone: endpoints come and
// go without end.
func (g *group) forgetMetrics(key string) {
	g.answers.Delete(key)
	of := prometheus.Labels{"zone": g.options.from, "to": key}
	askedTotal.DeletePartialMatch(of)
	durationSeconds.DeletePartialMatch(of)
	ejectionsTotal.DeletePartialMatch(of)
	mismatchesTotal.DeletePartialMatch(of)
	ejectedGauge.DeletePartialMatch(of)
	loopsGauge.DeletePartialMatch(of)
}

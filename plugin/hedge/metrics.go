package hedge

import (
	"sync"
	"time"

	"firebreakdns.io/firebreak/plugin/hedge/engine"

	"github.com/coredns/coredns/plugin"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	questionsTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "questions_total",
		Help:      "Counter of questions that upstreams were to be asked.",
	}, []string{"server", "zone"})
	failuresTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "failures_total",
		Help:      "Counter of questions that no upstream answered, by the reason.",
	}, []string{"server", "zone", "reason"})

	askedTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "asked_total",
		Help:      "Counter of what was sent to an upstream: for the first time, as a hedge, a retry, after a truncated answer, as a probe, or to find a loop.",
	}, []string{"zone", "to", "transport", "why"})
	durationSeconds = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "answer_duration_seconds",
		Help:      "Histogram of the time that a question waited for the upstream whose answer it got, hedges included.",
		Buckets:   []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 4},
	}, []string{"zone", "to"})
	lateTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "late_answers_total",
		Help:      "Counter of answers that came after the client's deadline, and went to the cache.",
	}, []string{"zone"})
	deniedTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "budget_denied_total",
		Help:      "Counter of questions that would have been asked of one more upstream, had there been budget for it.",
	}, []string{"zone"})
	ejectionsTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "ejections_total",
		Help:      "Counter of ejections, by the cause.",
	}, []string{"zone", "to", "transport", "cause"})
	mismatchesTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "mismatches_total",
		Help:      "Counter of what came from an upstream and was no answer to what it was asked: late, or forged.",
	}, []string{"zone", "to"})
	sourceErrors = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "source_errors_total",
		Help:      "Counter of times that the addresses of upstreams could not be found out.",
	}, []string{"zone", "source"})

	ejectedGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "ejected",
		Help:      "Whether an upstream is not asked over a transport because it failed.",
	}, []string{"zone", "to", "transport"})
	upstreamsGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "upstreams",
		Help:      "Upstreams that are known.",
	}, []string{"zone"})
	loopsGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "loop",
		Help:      "Whether what is sent to an upstream comes back to this server.",
	}, []string{"zone", "to"})
	outageGauge = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "outage",
		Help:      "Whether a drill has taken an upstream away.",
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

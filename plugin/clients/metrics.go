package clients

import (
	"sync"

	"github.com/coredns/coredns/plugin"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	queriesTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "queries_total",
		Help:      "Counter of clients' queries (infrastructure is no client).",
	}, []string{"server"})
	retriesTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "retries_total",
		Help:      "Counter of clients' queries that repeat one asked within 6 seconds. Divided by the others, it is the amplification that starts an avalanche.",
	}, []string{"server"})
	answersTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "answers_total",
		Help:      "Counter of answers to clients.",
	}, []string{"server"})
	errorsTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "errors_total",
		Help:      "Counter of answers to clients that were SERVFAIL or REFUSED.",
	}, []string{"server"})
)

// Listener counts what came in at one address of the server, for metrics with a
// server label. Its counters are looked up once, not for every query.
type Listener struct{ queries, retries, answers, errors prometheus.Counter }

var listeners sync.Map // address -> *Listener

// ListenerOf is the one of a server's address ("dns://:53").
func ListenerOf(server string) *Listener {
	if l, ok := listeners.Load(server); ok {
		return l.(*Listener)
	}
	l, _ := listeners.LoadOrStore(server, &Listener{
		queries: queriesTotal.WithLabelValues(server),
		retries: retriesTotal.WithLabelValues(server),
		answers: answersTotal.WithLabelValues(server),
		errors:  errorsTotal.WithLabelValues(server),
	})
	return l.(*Listener)
}

// Add counts queries, and how many of them were retries.
func (l *Listener) Add(queries, retries int) {
	l.queries.Add(float64(queries))
	if retries != 0 {
		l.retries.Add(float64(retries))
	}
}

// AddAnswers counts answers, and how many of them were errors.
func (l *Listener) AddAnswers(answers, errors int) {
	l.answers.Add(float64(answers))
	if errors != 0 {
		l.errors.Add(float64(errors))
	}
}

// What is of the process and not of one address is read from the table when it
// is asked for. The series are bounded: one each, and two for each of the
// busiest clients (at most MaxTop) and for all others.
var (
	entriesDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "entries"),
		"Clients in the seen table.", nil, nil)
	maxDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "entries_max"),
		"Clients that the seen table has room for.", nil, nil)
	droppedDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "dropped_total"),
		"Counter of clients replaced in the seen table or not let in for lack of room.", nil, nil)
	forgottenDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "questions_forgotten_total"),
		"Counter of questions forgotten before a retry of them could have come, for lack of room.", nil, nil)
	recordingDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "recording_active"),
		"Whether a drill is being recorded.", nil, nil)
	clientQueriesDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "client_queries_total"),
		"Counter of queries of the busiest clients, since they are among them, and of all others.", []string{"client", "name"}, nil)
	clientRetriesDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "client_retries_total"),
		"Counter of retries of the busiest clients, since they are among them, and of all others.", []string{"client", "name"}, nil)
)

// collector reads the process's table.
type collector struct{}

// register has the collector asked, from the first time that a Corefile has the
// plugin.
var register = sync.OnceFunc(func() { prometheus.MustRegister(collector{}) })

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{entriesDesc, maxDesc, droppedDesc, forgottenDesc, recordingDesc, clientQueriesDesc, clientRetriesDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (collector) Collect(ch chan<- prometheus.Metric) {
	p := current.Load()
	if p == nil {
		return
	}
	now := Now()
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	t := p.Table
	gauge(entriesDesc, float64(t.Len()))
	gauge(maxDesc, float64(t.Max()))
	count(droppedDesc, t.Dropped())
	count(forgottenDesc, t.counters().retriesLost)
	active := 0.0
	if r := t.Recording(now); r != nil && !r.Frozen {
		active = 1
	}
	gauge(recordingDesc, active)
	busy, otherQ, otherR := p.busiest.look(now)
	for _, c := range busy {
		name := p.Name(c.addr)
		count(clientQueriesDesc, c.queries, c.addr.String(), name)
		count(clientRetriesDesc, c.retries, c.addr.String(), name)
	}
	count(clientQueriesDesc, otherQ, "other", "")
	count(clientRetriesDesc, otherR, "other", "")
}

package nodecache

import (
	"sync"

	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	hitsTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "hits_total",
		Help:      "Counter of answers that were held and fresh, by what they say.",
	}, []string{"server", "type"})
	missesTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "misses_total",
		Help:      "Counter of questions whose answer was not held, or no longer fresh.",
	}, []string{"server"})
	coalescedTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "coalesced_total",
		Help:      "Counter of questions that waited for another one's answer instead of being asked upstream.",
	}, []string{"server"})
	staleTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "served_stale_total",
		Help:      "Counter of answers served after they had expired.",
	}, []string{"server"})
	refreshesTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "prefetch_total",
		Help:      "Counter of questions asked upstream again behind the clients, before an answer expires or after.",
	}, []string{"server"})
	failedTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "failed_refreshes_total",
		Help:      "Counter of questions that upstreams failed to answer while an older answer was held.",
	}, []string{"server"})
	mismatchedTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "drops_total",
		Help:      "Counter of upstreams' answers that were to another question.",
	}, []string{"server"})
	overflowTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "overflow_total",
		Help:      "Counter of questions that were not asked because too many were waiting.",
	}, []string{"server"})

	// The name and the label are those of NodeLocal DNSCache.
	setupErrors = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "setup_errors_total",
		Help:      "Counter of errors in setting up the node's addresses and rules.",
	}, []string{"errortype"})
)

// Types of set-up errors, with the values of NodeLocal DNSCache's label errortype.
const (
	SetupErrorRules          = "iptables"
	SetupErrorRulesLock      = "iptables_lock"
	SetupErrorInterfaceAdd   = "interface_add"
	SetupErrorInterfaceCheck = "interface_check"
	SetupErrorConfig         = "configmap"
)

// SetupError counts an error in setting up the node's addresses and rules: in
// coredns_nodecache_setup_errors_total, the metric that NodeLocal DNSCache has, so
// that its alerts still work.
func SetupError(kind string) { setupErrors.WithLabelValues(kind).Inc() }

// counters are those of one server address, looked up once.
type counters struct {
	hits                       [unstored + 1]prometheus.Counter
	misses, coalesced, stale   prometheus.Counter
	refreshes, failedRefreshes prometheus.Counter
	mismatched, overflow       prometheus.Counter
}

func (c *counters) hit(k kind, n int) { c.hits[k].Add(float64(n)) }

var allCounters sync.Map // server address -> *counters

func metricsOf(s *dnsserver.Server) *counters {
	if s == nil {
		return countersOf("")
	}
	return countersOf(s.Addr)
}

func countersOf(server string) *counters {
	if c, ok := allCounters.Load(server); ok {
		return c.(*counters) //nolint:errcheck // nothing else is in there
	}
	c := &counters{
		misses:          missesTotal.WithLabelValues(server),
		coalesced:       coalescedTotal.WithLabelValues(server),
		stale:           staleTotal.WithLabelValues(server),
		refreshes:       refreshesTotal.WithLabelValues(server),
		failedRefreshes: failedTotal.WithLabelValues(server),
		mismatched:      mismatchedTotal.WithLabelValues(server),
		overflow:        overflowTotal.WithLabelValues(server),
	}
	// The words of plugin cache, and one for what RFC 9520 has cached.
	for k, word := range map[kind]string{positive: "success", nxdomain: "denial", nodata: "denial", failure: "error", unreachable: "error", unstored: "error"} {
		c.hits[k] = hitsTotal.WithLabelValues(server, word)
	}
	actual, _ := allCounters.LoadOrStore(server, c)
	return actual.(*counters) //nolint:errcheck // nothing else is in there
}

// What belongs to the process is read when it is asked for.
var (
	entriesDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "entries"),
		"Answers held, by what they say.", []string{"type"}, nil)
	bytesDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "bytes"),
		"Bytes that the held answers take, by what they say.", []string{"type"}, nil)
	bytesMaxDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "bytes_max"),
		"Bytes that held answers may take.", nil, nil)
	evictionsDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "evictions_total"),
		"Counter of answers evicted for lack of room, by what they say.", []string{"type"}, nil)
	wireActiveDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "wire_active"),
		"Whether the zone's hits at this address are answered without CoreDNS's chain (1), or why not (0).", []string{"server", "zone", "reason"}, nil)
	wireAnswersDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "wire_answers_total"),
		"Counter of queries answered without CoreDNS's chain.", []string{"server"}, nil)
	wireWaitingDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "wire_waiting"),
		"Queries at the address that wait in CoreDNS's chain.", []string{"server"}, nil)
	wireConnectionsDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "wire_connections"),
		"TCP connections at the address that are open, where their queries are answered out of order.", []string{"server"}, nil)
	wireDroppedDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "wire_kernel_drops_total"),
		"Counter of packets that the kernel dropped because the sockets' buffers were full.", []string{"server"}, nil)
	wireUnsentDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "wire_unsent_total"),
		"Counter of answers that the kernel did not take.", []string{"server"}, nil)
	wireOverflowDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "wire_overflow_total"),
		"Counter of queries answered SERVFAIL because too many were waiting in CoreDNS's chain.", []string{"server"}, nil)
)

type collector struct{}

// register has the collector asked, from the first time that a Corefile has the
// plugin.
var register = sync.OnceFunc(func() {
	prometheus.MustRegister(collector{})
	for _, kind := range []string{SetupErrorRules, SetupErrorRulesLock, SetupErrorInterfaceAdd, SetupErrorInterfaceCheck, SetupErrorConfig} {
		setupErrors.WithLabelValues(kind)
	}
})

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{entriesDesc, bytesDesc, bytesMaxDesc, evictionsDesc, wireActiveDesc, wireAnswersDesc, wireWaitingDesc, wireConnectionsDesc, wireDroppedDesc, wireUnsentDesc, wireOverflowDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	p := current.Load()
	if p == nil {
		return
	}
	success, denial, limit := p.store.usage()
	for word, u := range map[string]usage{"success": success, "denial": denial} {
		gauge(entriesDesc, float64(u.entries), word)
		gauge(bytesDesc, float64(u.bytes), word)
		count(evictionsDesc, u.evicted, word)
	}
	gauge(bytesMaxDesc, float64(limit))
	type zoneAt struct{ server, zone string }
	said := make(map[zoneAt]bool)
	for _, l := range p.listeners() {
		for _, b := range l.Blocks {
			if at := (zoneAt{l.Server(), b.Zone}); said[at] { // views share a zone
				continue
			} else {
				said[at] = true
			}
			off := l.Off
			if off == "" {
				off = b.Off
			}
			active := 0.0
			if off == "" {
				active = 1
			}
			gauge(wireActiveDesc, active, l.Server(), b.Zone, off)
		}
	}
	for _, g := range wire.Groups() {
		server := "dns://" + g.Addr()
		s := g.Stats()
		count(wireAnswersDesc, answeredAt(server).Load(), server)
		gauge(wireWaitingDesc, float64(s.Waiting), server)
		gauge(wireConnectionsDesc, float64(s.Streams), server)
		count(wireDroppedDesc, s.Dropped, server)
		count(wireUnsentDesc, s.Unsent, server)
		count(wireOverflowDesc, s.Overflow, server)
	}
}

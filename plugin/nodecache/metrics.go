package nodecache

import (
	"sync"

	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: name, Help: help,
	}, append([]string{"server"}, labels...))
}

var (
	hitsTotal       = counter("hits_total", "Counter of answers that were held and fresh, by what they say.", "type")
	missesTotal     = counter("misses_total", "Counter of questions whose answer was not held, or no longer fresh.")
	coalescedTotal  = counter("coalesced_total", "Counter of questions that waited for another one's answer instead of being asked upstream.")
	staleTotal      = counter("served_stale_total", "Counter of answers served after they had expired.")
	refreshesTotal  = counter("prefetch_total", "Counter of questions asked upstream again behind the clients, before an answer expires or after.")
	failedTotal     = counter("failed_refreshes_total", "Counter of questions that upstreams failed to answer while an older answer was held.")
	mismatchedTotal = counter("drops_total", "Counter of upstreams' answers that were to another question.")
	overflowTotal   = counter("overflow_total", "Counter of questions that were not asked because too many were waiting.")

	setupErrors = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "setup_errors_total",
		Help: "The number of errors during periodic network setup for node-cache",
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
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, name), help, labels, nil)
}

var (
	entriesDesc   = desc("entries", "Answers held, by what they say.", "type")
	bytesDesc     = desc("bytes", "Bytes that the held answers take, by what they say.", "type")
	bytesMaxDesc  = desc("bytes_max", "Bytes that held answers may take.")
	evictionsDesc = desc("evictions_total", "Counter of answers evicted for lack of room, by what they say.", "type")

	wireActiveDesc   = desc("wire_active", "Whether the zone's hits at this address are answered without CoreDNS's chain (1), or why not (0).", "server", "zone", "reason")
	wireAnswersDesc  = desc("wire_answers_total", "Counter of queries answered without CoreDNS's chain.", "server")
	wireWaitingDesc  = desc("wire_waiting", "Queries at the address that wait in CoreDNS's chain.", "server")
	wireDroppedDesc  = desc("wire_kernel_drops_total", "Counter of packets that the kernel dropped because the sockets' buffers were full.", "server")
	wireUnsentDesc   = desc("wire_unsent_total", "Counter of answers that the kernel did not take.", "server")
	wireOverflowDesc = desc("wire_overflow_total", "Counter of queries answered SERVFAIL because too many were waiting in CoreDNS's chain.", "server")
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
	for _, d := range []*prometheus.Desc{entriesDesc, bytesDesc, bytesMaxDesc, evictionsDesc, wireActiveDesc, wireAnswersDesc, wireWaitingDesc, wireDroppedDesc, wireUnsentDesc, wireOverflowDesc} {
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
		count(wireDroppedDesc, s.Dropped, server)
		count(wireUnsentDesc, s.Unsent, server)
		count(wireOverflowDesc, s.Overflow, server)
	}
}

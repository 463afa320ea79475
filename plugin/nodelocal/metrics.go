package nodelocal

import (
	"sync"

	"github.com/coredns/coredns/plugin"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	repairsTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "repairs_total",
		Help:      "Counter of times that the node's link, addresses or rules were found gone or changed and were put back.",
	}, []string{"why"})
	checkFailuresTotal = promauto.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "check_failures_total",
		Help:      "Counter of failed checks of an address that is not captured yet.",
	})
)

// What repairs are of.
const (
	repairLink  = "link" // and its addresses
	repairRules = "rules"
)

// What is read when it is asked for.
var (
	capturedDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "captured"),
		"Addresses whose traffic is captured.", nil, nil)
	addressesDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "addresses"),
		"Addresses in the Corefile.", nil, nil)
	ownerDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "owner"),
		"Whether this generation has the node's link (1), or a newer one has it (0).", nil, nil)
	generationsDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "generations"),
		"Processes that serve the node's addresses, this one among them.", nil, nil)
	notReadyDesc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "not_ready"),
		"Whether the node's DNS is not captured for this reason (1).", []string{"reason"}, nil)
)

type collector struct{}

// register has the collector asked, from the first time that a Corefile has the
// plugin.
var register = sync.OnceFunc(func() {
	prometheus.MustRegister(collector{})
	for _, what := range []string{repairLink, repairRules} {
		repairsTotal.WithLabelValues(what)
	}
})

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{capturedDesc, addressesDesc, ownerDesc, generationsDesc, notReadyDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (collector) Collect(ch chan<- prometheus.Metric) {
	s := node.status()
	if s == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	captured, reasons := 0, make(map[string]bool)
	for _, a := range s.Addresses {
		if a.Captured {
			captured++
		} else {
			reasons[a.Reason] = true
		}
	}
	gauge(capturedDesc, captured)
	gauge(addressesDesc, len(s.Addresses))
	owner := 0
	if s.Owner {
		owner = 1
	}
	gauge(ownerDesc, owner)
	gauge(generationsDesc, len(s.Others)+1)
	for _, r := range allReasons {
		v := 0
		if reasons[r] {
			v = 1
		}
		gauge(notReadyDesc, v, r)
	}
}

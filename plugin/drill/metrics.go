package drill

import (
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/coredns/plugin"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	active = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "active",
		Help:      "Whether a drill is on. Alerts on this server that a drill explains can be held back while it is 1.",
	})
	heldNow = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "held",
		Help:      "Drilled queries that are kept waiting.",
	})
	drilledTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "drilled_total",
		Help:      "Counter of queries that a drill dropped or refused.",
	}, []string{"server", "mode", "transport"})
	overflowTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "overflow_total",
		Help:      "Counter of drilled queries that were refused instead of kept waiting.",
	}, []string{"server"})
	probesTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "probes_total",
		Help:      "Counter of queries that were let through because they carried the drill's token.",
	}, []string{"server"})
	endsTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "ends_total",
		Help:      "Counter of drills that ended, by the reason.",
	}, []string{"reason"})
)

// zero makes the series of a server, so that the first drill is seen as an
// increase.
func zero(server string) {
	for _, t := range transportsOf(server) {
		for _, m := range []protocol.DrillMode{protocol.ModeDrop, protocol.ModeRefused} {
			drilledTotal.WithLabelValues(server, string(m), string(t))
		}
	}
	overflowTotal.WithLabelValues(server)
	probesTotal.WithLabelValues(server)
	for _, why := range []protocol.DrillEnd{protocol.EndExpired, protocol.EndDeleted, protocol.EndAbandoned, protocol.EndRemoved} {
		endsTotal.WithLabelValues(string(why))
	}
}

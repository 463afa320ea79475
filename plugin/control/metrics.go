package control

import (
	"strconv"

	"github.com/coredns/coredns/plugin"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Values of the labels.
const (
	otherRoute = "other" // a route that is not there

	handshakeOK      = "ok"
	handshakeRefused = "refused" // a certificate, or none, that is not let in
	handshakeBusy    = "busy"    // a caller with too many connections
	handshakeTimeout = "timeout"
	handshakeAborted = "aborted" // the other side went away
	handshakeEvicted = "evicted" // thrown out because too many were waiting

	refusedConnection = "connection" // not let in
	refusedCaller     = "caller"     // not, or no longer, on the list
	refusedBoot       = "boot"       // meant for another process
	refusedBusy       = "busy"       // too many at once
)

var (
	requests = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: "control",
		Name:      "requests_total",
		Help:      "Counter of calls to the control endpoint, by route and status code.",
	}, []string{"route", "code"})

	refusals = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: "control",
		Name:      "refused_total",
		Help:      "Counter of connections and calls that the control endpoint refused, by reason.",
	}, []string{"reason"})

	handshakes = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: "control",
		Name:      "handshakes_total",
		Help:      "Counter of connections to the control endpoint, by how they were let in or not.",
	}, []string{"result"})

	connections = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: "control",
		Name:      "connections",
		Help:      "Open connections of known callers.",
	})

	subscribers = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: "control",
		Name:      "event_streams",
		Help:      "Open streams of events.",
	})

	certificateExpiry = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: "control",
		Name:      "certificate_expiry_timestamp_seconds",
		Help:      "Until when the endpoint's certificate is valid, in Unix time; 0 where it has none.",
	})

	certificateFailures = promauto.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: "control",
		Name:      "certificate_failures_total",
		Help:      "Counter of changed certificate files that could not be used.",
	})
)

// zeroMetrics makes the series there from the start, so that a rate over the
// first event is not lost.
func zeroMetrics(routes []string) {
	for _, route := range append(routes, otherRoute) {
		requests.WithLabelValues(route, statusLabel(200))
	}
	for _, reason := range []string{refusedConnection, refusedCaller, refusedBoot, refusedBusy} {
		refusals.WithLabelValues(reason)
	}
	for _, result := range []string{handshakeOK, handshakeRefused, handshakeBusy, handshakeTimeout, handshakeAborted, handshakeEvicted} {
		handshakes.WithLabelValues(result)
	}
}

func statusLabel(code int) string { return strconv.Itoa(code) }

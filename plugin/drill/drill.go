// Package drill takes the server away from chosen clients for a bounded time:
// their queries are dropped, as a dead node's would be, or refused.
//
// An Engine holds the one drill that may be on in a process. Without a drill, a
// query costs one atomic load. With one it is one load and one look-up of the
// client's prefix, without lock or allocation (running.go), so that a faster
// path than CoreDNS's chain can ask the same. It never hits this node, this
// server's own addresses, what the Corefile calls infrastructure, what the order
// spares, or the controller's probes.
//
// A drill ends by itself, on the monotonic clock: when its time is over, or 30 s
// after its controller was last heard. It belongs to the process: a Corefile
// reload keeps it, a restart cancels it. A drilled query is no answer: it counts
// as drilled (plugin clients) and reaches no plugin behind this one.
package drill

import (
	"context"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/coredns/plugin"

	"github.com/miekg/dns"
)

// Drill is the plugin's handler.
type Drill struct {
	Next   plugin.Handler
	engine *Engine
	leave  *leave // of this handler's Corefile
}

// Name implements plugin.Handler.
func (*Drill) Name() string { return pluginName }

// Ready implements ready.Readiness. Health is never touched: a liveness probe
// would restart the server, and that would end the drill.
func (d *Drill) Ready() bool {
	r := d.engine.Running()
	return r == nil || r.order.Readiness != protocol.ReadinessFail
}

// NotReady says why Ready is false.
func (d *Drill) NotReady() string { return "a drill that fails readiness is running" }

// ServeDNS implements plugin.Handler.
func (d *Drill) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	running := d.engine.Running()
	if running == nil {
		return plugin.NextOrFailure(pluginName, d.Next, ctx, w, r)
	}
	addr, _, stream, ok := clients.RemoteOf(w)
	if !ok || !running.Hits(addr) {
		return plugin.NextOrFailure(pluginName, d.Next, ctx, w, r)
	}
	over, server := transportOf(ctx, stream)
	if isProbe(running, r) {
		probesTotal.WithLabelValues(server).Inc()
		return plugin.NextOrFailure(pluginName, d.Next, ctx, w, withoutToken(r))
	}

	running.Count()
	drilledTotal.WithLabelValues(server, string(running.Mode()), string(over)).Inc()
	out := w
	if asked := clients.Of(ctx); asked != nil {
		asked.Drilled(clients.Now())
		out = asked.ResponseWriter // around it: a refusal by a drill is no answer
	}
	if running.Mode() == protocol.ModeRefused {
		_ = out.WriteMsg(refusal(r)) // the client went away: nobody to tell
		return dns.RcodeSuccess, nil
	}
	switch over {
	case overUDP:
		return dns.RcodeSuccess, nil
	case overTCP, overTLS, overQUIC:
		// A connection is closed; of QUIC, only the stream is ended: one that stays
		// open would count against the connection's limit for ever.
		_ = out.Close()
		return dns.RcodeSuccess, nil
	}
	// CoreDNS turns silence into an HTTP error or, on gRPC, into an echo of the
	// query. Only a handler that does not return is silent.
	switch d.engine.hold(ctx, running, d.leave.soon()) {
	case heldEnded:
		return plugin.NextOrFailure(pluginName, d.Next, ctx, w, r)
	case heldFull, heldLeaving:
		running.overflow.Add(1)
		overflowTotal.WithLabelValues(server).Inc()
		_ = out.WriteMsg(refusal(r))
	}
	return dns.RcodeSuccess, nil
}

// Package clients identifies who asks and keeps count in bounded memory, on
// every transport.
//
// A Table is the engine: an address and a hashed question go in (Query), a
// ticket comes out, and on the ticket is reported what became of the query
// (Answered, Drilled). It needs neither CoreDNS nor a parsed message, reads no
// clock and does not allocate, so that a faster path than CoreDNS's chain can
// use it too. It holds the seen table (who asked, also before the last restart:
// file.go), the questions of the last 6 seconds (retries.go) and, while a drill
// of the fleet is on, a recording (recording.go). All of it belongs to the
// process and outlives a Corefile reload (process.go); the plugin's handler is
// thin.
//
// A retry is, within 6 s, an exact repeat on UDP (address, port, ID, question),
// or the same question of the same client while the earlier one had no answer
// sent or was drilled; not the TCP attempt after a truncated answer.
package clients

import (
	"context"
	"net"
	"net/netip"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/request"

	"github.com/miekg/dns"
)

// Clients is the plugin's handler.
type Clients struct {
	Next    plugin.Handler
	process *Process
}

// Name implements plugin.Handler.
func (*Clients) Name() string { return pluginName }

// ServeDNS implements plugin.Handler.
func (c *Clients) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	q := Query{ID: r.Id}
	var ok bool
	if q.Addr, q.Port, q.Stream, ok = RemoteOf(w); !ok || len(r.Question) == 0 {
		return plugin.NextOrFailure(pluginName, c.Next, ctx, w, r)
	}
	server := ""
	if s, ok := ctx.Value(dnsserver.Key{}).(*dnsserver.Server); ok {
		server = s.Addr
	}
	q.Stream = q.Stream || !isPlain(server)
	q.Question = HashQuestion(&r.Question[0])

	a := &Asked{ResponseWriter: w, Query: q, of: c, at: ListenerOf(server)}
	if c.process.mark.on(r) {
		r = c.process.mark.off(r) // its ticket stays nobody's
	} else {
		a.ticket = c.process.Query(q, Now())
	}
	if a.ticket.Counted() {
		retries := 0
		if a.ticket.Retry() {
			retries = 1
		}
		a.at.Add(1, retries)
	}
	rcode, err := plugin.NextOrFailure(pluginName, c.Next, context.WithValue(ctx, askedKey{}, a), a, r)
	if !plugin.ClientWrite(rcode) {
		a.answered(rcode, false) // the server sends it
	}
	return rcode, err
}

// isPlain says whether a server's address is one of plain DNS, where UDP is
// datagrams and not QUIC.
func isPlain(server string) bool {
	const scheme = "dns://"
	return server == "" || len(server) >= len(scheme) && server[:len(scheme)] == scheme
}

// RemoteOf is who asks, as CoreDNS gives it on any transport: for DoH that is
// the end of the HTTP connection, behind the PROXY protocol whom that names. ok
// is false where there is no address (a unix socket).
func RemoteOf(w dns.ResponseWriter) (a netip.Addr, port uint16, stream, ok bool) {
	remote := w.RemoteAddr()
	if u, wraps := remote.(interface{ Unwrap() net.Addr }); wraps { // PROXY protocol
		remote = u.Unwrap()
	}
	var ap netip.AddrPort
	switch r := remote.(type) {
	case *net.UDPAddr:
		ap = r.AddrPort()
	case *net.TCPAddr:
		ap, stream = r.AddrPort(), true
	}
	return Normal(ap.Addr()), ap.Port(), stream, ap.Addr().IsValid()
}

// Metadata implements metadata.Provider: clients/address, and clients/name for
// those that have one.
func (c *Clients) Metadata(ctx context.Context, state request.Request) context.Context {
	a, _, _, ok := RemoteOf(state.W)
	if !ok {
		return ctx
	}
	metadata.SetValueFunc(ctx, pluginName+"/address", a.String)
	if name := c.process.Name(a); name != "" {
		metadata.SetValueFunc(ctx, pluginName+"/name", func() string { return name })
	}
	return ctx
}

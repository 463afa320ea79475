// Package hedge asks upstreams: several, as endpoints, and a second one when the
// first is slower than it should be.
//
// What is decided is decided in engine, which is pure: whom to ask, when to ask
// another, who is ejected, what the budget allows. exchange has the sockets,
// endpoints and kube find the addresses. This package is the shell that runs them
// for each hedge of a Corefile (group.go, ask.go), the handler, and what belongs
// to the process and outlives a reload (process.go): what was learnt of upstreams,
// who follows them, and the outages of drills (outage.go).
//
// The client is answered by its deadline in any case. The question goes on behind
// it, for the cache (late) and for the health of those that were asked.
package hedge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"firebreakdns.io/firebreak/plugin/hedge/late"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/request"

	"github.com/miekg/dns"
)

// Hedge is the plugin's handler: all the directives of a server block, as one. Who
// looks at a block's plugins finds one by each name, and with several the others
// would be unknown to ready and to the wire path.
type Hedge struct {
	Next   plugin.Handler
	groups []*group // one for each directive, in the order of the Corefile
}

// Name implements plugin.Handler.
func (*Hedge) Name() string { return pluginName }

// Ready implements ready.Readiness: there is somebody to ask. Whether they are
// well is not for readiness: a server that is taken out of its Service because
// its upstreams are dead answers not even what it has cached.
func (h *Hedge) Ready() bool { return h.NotReady() == "" }

// NotReady says why Ready is false.
func (h *Hedge) NotReady() string {
	var why []string
	for _, g := range h.groups {
		if g.ready() {
			continue
		}
		var words []string
		for _, t := range g.options.targets {
			words = append(words, t.text)
		}
		why = append(why, fmt.Sprintf("no upstream of %s is known yet (%s)", g.options.from, strings.Join(words, " ")))
	}
	return strings.Join(why, ", ")
}

// ready says that there is somebody to ask.
func (g *group) ready() bool { return g.started() && len(g.view.Keys()) > 0 }

// of is who asks for a name: the first that fits, or nil.
func (h *Hedge) of(name string) *group {
	for _, g := range h.groups {
		if g.options.matches(name) {
			return g
		}
	}
	return nil
}

// ServeDNS implements plugin.Handler.
func (h *Hedge) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if len(r.Question) == 1 && loops.heard(r.Question[0]) {
		return dns.RcodeRefused, nil
	}
	state := request.Request{W: w, Req: r}
	g := h.of(state.Name())
	if g == nil {
		return plugin.NextOrFailure(pluginName, h.Next, ctx, w, r)
	}
	if code, ok := askable(r); !ok {
		return code, nil
	}
	server := serverMetrics(metrics.WithServer(ctx), g.options.from)
	server.questions.Inc()

	reply, err := g.ask(ctx, r, late.Of(ctx))
	switch {
	case errors.Is(err, errFull):
		server.failures[failFull].Inc()
		_ = w.WriteMsg(failure(r, dns.RcodeRefused, dns.ExtendedErrorCodeOther, err.Error())) // the client went away: nobody to tell
		return dns.RcodeSuccess, err
	case err != nil:
		return dns.RcodeServerFailure, err
	}
	if reply.msg != nil {
		metadata.SetValueFunc(ctx, "hedge/upstream", func() string { return reply.key })
		_ = w.WriteMsg(reply.msg)
		return dns.RcodeSuccess, nil
	}
	server.failures[reply.fail].Inc()
	code, text := g.explain(reply.fail)
	_ = w.WriteMsg(failure(r, dns.RcodeServerFailure, code, text))
	// Answered already; the error is for the errors plugin to log.
	return dns.RcodeSuccess, fmt.Errorf("%s %s: %s", state.Name(), state.Type(), text)
}

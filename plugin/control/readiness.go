package control

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
)

// readier is CoreDNS's ready.Readiness: a plugin that knows whether it is ready.
type readier interface{ Ready() bool }

// explainer is a readier that says why it is not. NotReady is asked after Ready
// said no, and is one line, without a full stop; empty says nothing.
type explainer interface{ NotReady() string }

// readiness asks what the ready plugin asks: each plugin that can say whether it
// is ready, in the server blocks that have the ready plugin. That plugin listens
// where two processes of one host can listen, and keeps its list to itself; this
// one answers for this process and no other.
type readiness struct {
	state *protocol.ReadyState

	mu      sync.Mutex
	plugins []*waiting
}

// waiting is a plugin that is asked.
type waiting struct {
	name string
	readier
	latched bool // it was ready once, and is not asked again
}

// newReadiness finds the plugins of a Corefile that serves.
func newReadiness(p *plan, corefile caddy.Input) *readiness {
	state, blocks := readyState(corefile)
	r := &readiness{state: state}
	c := p.controller // a copy: caddy finds a block's config by these two numbers
	for _, block := range blocks {
		c.ServerBlockIndex, c.ServerBlockKeyIndex = block, 0
		for _, h := range dnsserver.GetConfig(&c).Handlers() {
			if plugin, ok := h.(readier); ok {
				r.plugins = append(r.plugins, &waiting{name: h.Name(), readier: plugin})
			}
		}
	}
	return r
}

// missing is what is not ready, each with the reason where it has one.
func (r *readiness) missing() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, p := range r.plugins {
		if p.latched {
			continue
		}
		if p.Ready() {
			p.latched = !r.state.Continuous
			continue
		}
		line := p.name
		if e, ok := p.readier.(explainer); ok {
			if why := e.NotReady(); why != "" {
				line += ": " + why
			}
		}
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

// serve answers GET protocol.PathReady.
func (r *readiness) serve(w http.ResponseWriter) {
	if !r.state.Configured {
		protocol.NewProblem(http.StatusServiceUnavailable, protocol.ReasonNotReady,
			"the Corefile has no ready plugin, so nobody can tell: put it in the server blocks whose plugins are to be ready").Write(w)
		return
	}
	if missing := r.missing(); len(missing) > 0 {
		protocol.NewProblem(http.StatusServiceUnavailable, protocol.ReasonNotReady, "%s", strings.Join(missing, "; ")).Write(w)
		return
	}
	WriteJSON(w, http.StatusOK, map[string]bool{"ready": true})
}

// serveLive answers GET protocol.PathLive: whoever gets here was let in by an
// endpoint that answers only while its Corefile serves.
func serveLive(w http.ResponseWriter, _ *http.Request) {
	WriteJSON(w, http.StatusOK, map[string]bool{"live": true})
}

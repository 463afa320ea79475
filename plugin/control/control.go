// Package control is the endpoint at which a controller talks to this server:
// HTTPS with certificates on both sides, or plain HTTP on a unix socket that
// only this server's own user can open.
//
// It knows nothing of drills or zones. The other plugins hang their routes and
// their part of the state on it (Provide) while the Corefile is set up. The
// endpoint belongs to the process, not to a Corefile: a reload swaps what
// answers behind it while it goes on listening, and only once the new Corefile
// serves, so that a failed reload changes nothing here.
//
// Whoever can reach it may take DNS away, so it trusts nobody by address, reads
// strictly, bounds all that a caller can make it hold (host.go, gate.go), and
// writes a line for every change and every refused caller (audit.go).
package control

import (
	"net/http"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/caddy"
)

// Provider is what a plugin hangs on the control endpoint.
type Provider struct {
	// Feature is the word for it in protocol.State.Features.
	Feature string
	// Routes registers patterns of net/http ("GET /v1/clients"). May be nil.
	Routes func(*http.ServeMux)
	// State fills in the provider's part of the state. It is called often and
	// from several goroutines at once. May be nil.
	State func(*protocol.State)
}

// planKey is where an instance's plan stands in its caddy storage.
type planKey struct{}

// plan is what one Corefile wants of the control endpoint. It lives in the
// caddy instance, so that a reload starts afresh.
type plan struct {
	options    *options         // nil: the Corefile has no control
	controller caddy.Controller // of the directive, where there is one
	providers  []Provider
	local      *plan // the same at the socket beside the address; nil: none
}

// beside is what p wants at its socket: all that it wants at its address. It is for
// OnStartup, when every provider is known.
func (p *plan) beside() *plan {
	return &plan{options: &options{network: "unix", address: p.options.socket}, controller: p.controller, providers: p.providers}
}

func planOf(c *caddy.Controller) *plan {
	if p, ok := c.Get(planKey{}).(*plan); ok {
		return p
	}
	p := &plan{}
	c.Set(planKey{}, p)
	return p
}

// Provide hangs p on the control endpoint of the Corefile that is being set up.
// Where several server blocks provide the same feature, the first one counts:
// there is one of each in a process. Without the control plugin in the Corefile
// it does nothing.
func Provide(c *caddy.Controller, p Provider) {
	plan := planOf(c)
	for _, has := range plan.providers {
		if has.Feature == p.Feature {
			return
		}
	}
	plan.providers = append(plan.providers, p)
}

// Changed says that the state changed: whoever listens to events is sent it
// anew. It is cheap and never blocks.
func Changed() { changes.announce() }

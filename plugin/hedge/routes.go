package hedge

import (
	"cmp"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/hedge/engine"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// provider is what hedge hangs on the control endpoint.
var provider = control.Provider{
	Feature: protocol.FeatureUpstreams,
	Routes:  routes,
	State: func(s *protocol.State) {
		s.Upstreams = state.upstreams()
		s.Outage = outages.now()
	},
}

func changed() { control.Changed() }

func routes(mux *http.ServeMux) {
	path := protocol.PathUpstreams + "{address}/outage"
	mux.HandleFunc("PUT "+path, func(w http.ResponseWriter, r *http.Request) {
		var o protocol.OutageOrder
		if !control.ReadJSON(w, r, &o) {
			return
		}
		s, problem := outages.start(r.PathValue("address"), o)
		answer(w, o.ID, s, problem)
	})
	mux.HandleFunc("DELETE "+path, func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Query().Get("id")
		s, problem := outages.stop(r.PathValue("address"), id)
		answer(w, id, s, problem)
	})
}

func answer(w http.ResponseWriter, id string, s *protocol.OutageState, problem *protocol.Problem) {
	if problem != nil {
		log.Infof("Outage %q: %v", id, problem)
		problem.Write(w)
		return
	}
	control.WriteJSON(w, http.StatusOK, s)
}

// upstreams is the health of all upstreams. During a reload two Corefiles may
// list one: the newer counts.
func (p *process) upstreams() []protocol.UpstreamState {
	type key struct{ zone, address string }
	all := make(map[key]protocol.UpstreamState)
	for _, g := range p.running() {
		for _, h := range g.view.Health() {
			s := g.upstream(h)
			all[key{s.Zone, s.Address}] = s
		}
	}
	out := make([]protocol.UpstreamState, 0, len(all))
	for _, s := range all {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b protocol.UpstreamState) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Address, b.Address))
	})
	return out
}

func (g *group) upstream(h engine.Health) protocol.UpstreamState {
	s := protocol.UpstreamState{
		Zone: g.options.from, Address: strings.TrimPrefix(h.Key, "tls://"),
		Healthy: h.Well(), Loop: h.Loops, Asked: h.Asked,
	}
	if h.Asked > 0 {
		s.LastAskedMs = g.wall(h.Last).UnixMilli()
	}
	for _, l := range h.Links {
		t := protocol.UpstreamTransport{
			Transport: l.Transport.String(), Ejected: l.Ejected, InFlight: l.InFlight, Failed: l.Failed,
			P95Ms: math.Round(float64(l.P95)/float64(time.Microsecond)) / 1000,
		}
		if l.Failed > 0 || l.Ejected {
			t.Cause = l.Cause.String()
		}
		if l.Since > 0 {
			since := g.wall(l.Since).UTC()
			t.Since = &since
		}
		if l.Ejected {
			until := g.wall(l.Until).UTC()
			t.ProbeAt = &until
		}
		if l.Heard >= 0 {
			t.LastAnswerMs = g.wall(l.Heard).UnixMilli()
		}
		s.Transports = append(s.Transports, t)
	}
	return s
}

// lastHealthy says whether an upstream may be taken away: there must be one of
// that address, and another one that is well for each zone.
func lastHealthy(addr netip.AddrPort) *protocol.Problem {
	found := false
	for _, g := range state.running() {
		has, others := false, 0
		for _, h := range g.view.Health() {
			if strings.TrimPrefix(h.Key, "tls://") == addr.String() {
				has = true
			} else if h.Well() {
				others++
			}
		}
		if has && others == 0 {
			return conflict(protocol.ReasonLastHealthy, "no other upstream of %s is well: without %s nothing would answer", g.options.from, addr)
		}
		found = found || has
	}
	if !found {
		return protocol.NewProblem(http.StatusNotFound, protocol.ReasonNotFound, "%s is no upstream of this server: the state lists them", addr)
	}
	return nil
}

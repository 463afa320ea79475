package fleettest

import (
	"net/http"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Cache makes the server one that asks upstreams, as one with hedge is. They are
// all well, and were just asked.
func (s *Server) Cache(upstreams ...string) {
	s.Edit(func(x *Shape) {
		x.State.Features = append(x.State.Features, protocol.FeatureUpstreams)
		for _, a := range upstreams {
			x.State.Upstreams = append(x.State.Upstreams, protocol.UpstreamState{
				Zone: ".", Address: a, Healthy: true, Asked: 1, LastAskedMs: time.Now().UnixMilli(),
				Transports: []protocol.UpstreamTransport{{Transport: "udp"}},
			})
		}
	})
}

// losing reports whether an upstream is taken away; it ends what is over.
func (s *Server) losing() bool {
	o := s.s.State.Outage
	if o == nil || o.Ended != nil {
		return false
	}
	if now := s.now(); now.After(o.EndsAt) || o.LeaseEnds != nil && now.After(*o.LeaseEnds) {
		s.endOutage(protocol.EndExpired)
		return false
	}
	return true
}

func (s *Server) endOutage(why protocol.DrillEnd) {
	o := *s.s.State.Outage
	at := s.now()
	o.Ended, o.End = &at, why
	s.s.State.Outage = &o
	s.ended[o.ID] = true
}

func (s *Server) lose(_ http.ResponseWriter, r *http.Request) (any, *protocol.Problem) {
	var o protocol.OutageOrder
	if p := decode(r, &o); p != nil {
		return nil, p
	}
	on := s.losing()
	switch {
	case s.ended[o.ID]:
		return nil, conflict(protocol.ReasonDrillEnded, "%s has ended", o.ID)
	case on && s.s.State.Outage.ID != o.ID:
		return nil, conflict(protocol.ReasonDrillRunning, "%s is on", s.s.State.Outage.ID)
	}
	now := s.now()
	x := protocol.OutageState{ID: o.ID, Fleet: o.Fleet, Address: r.PathValue("address"), Kind: o.Kind, Started: now, EndsAt: now.Add(time.Duration(o.DurationSeconds) * time.Second)}
	if on {
		x = *s.s.State.Outage
	}
	if o.Lease {
		lease := now.Add(protocol.LeaseSeconds * time.Second)
		x.LeaseEnds = &lease
	}
	s.s.State.Outage = &x
	return x, nil
}

func (s *Server) regain(_ http.ResponseWriter, r *http.Request) (any, *protocol.Problem) {
	id := r.URL.Query().Get("id")
	s.ended[id] = true
	if o := s.s.State.Outage; o == nil || o.ID != id {
		return protocol.OutageState{ID: id, Address: r.PathValue("address")}, nil
	}
	if s.losing() {
		s.endOutage(protocol.EndDeleted)
	}
	return s.s.State.Outage, nil
}

package run

import (
	"slices"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// simUpstream is an upstream of a simulated server: asked by its share of the
// server's queries while it is well, ejected a second after it went away, and
// brought back by a probe two seconds after it came back.
type simUpstream struct {
	addr, zone string
	asked      uint64
	last       time.Time // true time
	ejected    bool
	since      time.Time // of the last change of ejected
	bad        bool      // by itself, not by an outage
	keeps      bool      // nothing ejects it
	loops      bool
}

func (v *simServer) away(u *simUpstream) bool {
	return v.outage != nil && v.outage.Ended == nil && v.outage.Address == u.addr
}

// passUpstreams lets a second pass.
func (v *simServer) passUpstreams(now time.Time) {
	if o := v.outage; o != nil && o.Ended == nil {
		if !now.Before(v.ends) {
			v.endOutage(now, protocol.EndExpired)
		} else if !now.Before(v.lease) {
			v.endOutage(now, protocol.EndAbandoned)
		}
	}
	well := map[string]uint64{}
	for _, u := range v.upstreams {
		switch gone := v.away(u) || u.bad; {
		case gone && !u.ejected && !u.keeps && (!v.away(u) || v.outage.Hit > 0):
			u.ejected, u.since = true, now
		case !gone && u.ejected && (v.outage == nil || v.outage.Ended == nil || v.clock(now).Sub(*v.outage.Ended) >= 2*time.Second):
			u.ejected, u.since = false, now
		}
		if !u.ejected && !u.loops {
			well[u.zone]++
		}
	}
	for _, u := range v.upstreams {
		if u.ejected || u.loops || v.qps == 0 {
			continue
		}
		share := v.qps / well[u.zone]
		u.asked += share
		u.last = now
		if v.away(u) {
			v.outage.Hit += share
		}
	}
}

func (v *simServer) endOutage(now time.Time, why protocol.DrillEnd) {
	at := v.clock(now)
	v.outage.Ended, v.outage.End = &at, why
	v.endedIDs[v.outage.ID] = true
}

func (v *simServer) tellUpstreams(t *protocol.State) {
	if !slices.Contains(v.features, protocol.FeatureUpstreams) {
		return
	}
	for _, u := range v.upstreams {
		link := protocol.UpstreamTransport{Transport: "udp", Ejected: u.ejected}
		if u.ejected {
			link.Cause = "silent"
		}
		if !u.since.IsZero() {
			since := v.clock(u.since)
			link.Since = &since
		}
		one := protocol.UpstreamState{Zone: u.zone, Address: u.addr, Healthy: !u.ejected && !u.loops, Loop: u.loops, Asked: u.asked, Transports: []protocol.UpstreamTransport{link}}
		if !u.last.IsZero() {
			one.LastAskedMs = v.clock(u.last).UnixMilli()
		}
		t.Upstreams = append(t.Upstreams, one)
	}
	if v.outage != nil {
		o := *v.outage
		t.Outage = &o
	}
}

// applyUpstream carries an action on an upstream out.
func (v *simServer) applyUpstream(now time.Time, a Action, res *Result) {
	at := v.clock(now)
	switch {
	case a.Kind == ActEnd:
		v.endedIDs[a.Drill] = true
		if v.outage != nil && v.outage.ID == a.Drill && v.outage.Ended == nil {
			v.endOutage(now, protocol.EndDeleted)
		}
	case v.endedIDs[a.Drill]:
		res.Reason, res.Error = protocol.ReasonDrillEnded, "ended"
	case v.outage != nil && v.outage.Ended == nil && v.outage.ID != a.Drill:
		res.Reason, res.Error = protocol.ReasonDrillRunning, v.outage.ID+" is on"
	case v.outage == nil || v.outage.ID != a.Drill:
		length := time.Duration(a.Outage.DurationSeconds) * time.Second
		v.ends = now.Add(length)
		v.outage = &protocol.OutageState{ID: a.Drill, Address: a.Upstream, Kind: a.Outage.Kind, Started: at, EndsAt: at.Add(length)}
		fallthrough
	default:
		v.lease = now.Add(protocol.LeaseSeconds * time.Second)
	}
	if v.outage != nil && v.outage.ID == a.Drill {
		o := *v.outage
		res.Drill = AsDrill(&o)
	}
}

func (v *simServer) setUpstream(s *sim, key, addr string) {
	for _, u := range v.upstreams {
		if u.addr != addr {
			continue
		}
		switch key {
		case "eject":
			u.bad, u.ejected, u.since = true, true, s.now
		case "bring":
			u.bad, u.keeps = false, false
		case "keep":
			u.keeps = true
		case "loop":
			u.loops = true
		}
	}
	if key == "drop" {
		v.upstreams = slices.DeleteFunc(v.upstreams, func(u *simUpstream) bool { return u.addr == addr })
	}
}

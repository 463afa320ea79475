package run

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

func num(t *testing.T, d *datadriven.TestData, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		d.Fatalf(t, "%q is no number", s)
	}
	return n
}

func truth(s string) *bool {
	b := s == "true"
	return &b
}

func (s *sim) setSpec(t *testing.T, d *datadriven.TestData, key string, vals []string) {
	val := ""
	if len(vals) > 0 {
		val = vals[0]
	}
	switch key {
	case "server":
		s.spec.Server = val
	case "stage":
		s.spec.Stage = Stage(val)
	case "upstream": // upstream=ADDRESS: its defaults too, as the shell has it
		s.spec.Stage, s.spec.Upstream, s.spec.Mode, s.spec.Readiness = StageUpstream, val, "", ""
		s.spec = s.spec.WithDefaults()
	case "mode":
		s.spec.Mode = protocol.DrillMode(val)
	case "seconds":
		s.spec.Seconds = num(t, d, val)
	case "readiness":
		s.spec.Readiness = protocol.Readiness(val)
	case "clients":
		s.spec.Everyone, s.spec.Clients = false, vals
	case "exclude":
		s.spec.Exclude = vals
	case "errorpoints":
		s.spec.Limits.ErrorPoints = float64(num(t, d, val))
	case "everyone":
		s.spec.Everyone = val != "false"
	case "stuck":
		s.spec.Limits.Stuck = num(t, d, val)
	case "expect":
		s.spec.Limits.ExpectSeconds = num(t, d, val)
	case "monitors":
		for _, m := range vals {
			s.spec.Monitors = append(s.spec.Monitors, Monitor{Name: m, Type: "A"})
		}
	case "reason":
		s.spec.Reason = val
	case "terminal":
		s.spec.Terminal = true
	case "reading":
		s.spec.Timings.ReadingSeconds = num(t, d, val)
	case "tail":
		s.spec.Timings.TailSeconds = num(t, d, val)
	case "retry":
		s.spec.Timings.RetrySeconds = num(t, d, val)
	case "return":
		s.spec.Timings.ReturnSeconds = num(t, d, val)
	case "ignorehealth":
		s.spec.Timings.IgnoreHealth = true
	default:
		d.Fatalf(t, "spec: %s", key)
	}
}

func (s *sim) setServer(t *testing.T, d *datadriven.TestData, v *simServer, key string, vals []string) {
	val := ""
	if len(vals) > 0 {
		val = vals[0]
	}
	switch key {
	case "heard":
		v.heard, v.since = val == "true", s.now
	case "restart":
		v.restart(s.now)
	case "ready":
		v.ready = truth(val)
	case "routed":
		v.routed = truth(val)
	case "continuous":
		v.continuous = val == "true"
	case "configured":
		v.configured = val == "true"
	case "terminating":
		v.terminating = true
	case "cordoned":
		v.cordoned = true
	case "features":
		v.features = vals
	case "version":
		v.version = val
	case "offset":
		v.offset = duration(t, val)
	case "err":
		v.err = int64(num(t, d, val))
	case "foreign": // foreign=VERSION: too far from the controller's
		v.version, v.foreign = val, true
	case "probed":
		v.unprobed = val != "true"
	case "answers":
		v.answersClients = val == "true"
	case "never": // it has answered nobody for long
		v.lastAnswer, v.lastProbe = simStart.AddDate(0, 0, -1), simStart.AddDate(0, 0, -1)
		v.answersClients, v.unprobed = false, true
	case "qps":
		v.qps = uint64(num(t, d, val))
	case "errors":
		v.errs = uint64(num(t, d, val))
	case "denials":
		v.denials = uint64(num(t, d, val))
	case "older": // it does not count its denials
		v.older = true
	case "retries":
		v.retries = uint64(num(t, d, val))
	case "latency":
		v.latency = float64(num(t, d, val))
	case "fail": // fail=(order,timeout)
		v.fail[vals[0]] = vals[1]
	case "ok":
		delete(v.fail, val)
	case "drill": // another controller's
		v.drill = &protocol.DrillState{ID: val, Started: s.now, EndsAt: s.now.Add(100e9)}
		v.lease, v.ends = s.now.Add(1e12), s.now.Add(100e9)
		v.order = &protocol.Order{}
	case "recording":
		v.rec = &protocol.Recording{BootID: v.bootID(), RecordingState: protocol.RecordingState{Drill: val, Started: s.now, EndsAt: s.now.Add(100e9)}}
		v.recEnds = s.now.Add(100e9)
	case "upstreams": // upstreams=(10.0.0.1:53,10.0.0.2:53): for the root zone, beside those that there are
		for _, addr := range vals {
			v.upstreams = append(v.upstreams, &simUpstream{addr: addr, zone: "."})
		}
		v.features = append(v.features, protocol.FeatureUpstreams)
	case "zone": // zone=(cluster.local.,10.0.0.1:53,…): the same for another zone
		for _, addr := range vals[1:] {
			v.upstreams = append(v.upstreams, &simUpstream{addr: addr, zone: vals[0]})
		}
	case "eject", "keep", "bring", "loop", "drop": // an upstream: ejected by itself, never ejected, back, a loop, not listed any more
		v.setUpstream(s, key, val)
	case "outage": // another controller's: outage=(ID,ADDRESS)
		v.outage = &protocol.OutageState{ID: vals[0], Address: vals[1], Started: v.clock(s.now), EndsAt: v.clock(s.now).Add(100e9)}
		v.lease, v.ends = s.now.Add(1e12), s.now.Add(100e9)
	case "removed":
		v.features = []string{protocol.FeatureClients, protocol.FeatureRecordings}
		if v.drilling() {
			v.endDrill(v.clock(s.now), protocol.EndRemoved)
		}
	default:
		d.Fatalf(t, "server: %s", key)
	}
}

func (s *sim) setFacts(t *testing.T, d *datadriven.TestData, key string, vals []string) {
	val := strings.Join(vals, " ")
	switch key {
	case "enabled":
		s.facts.Enabled = val == "true"
	case "incident":
		s.facts.Incident = val
	case "rollout":
		s.facts.Rollout = val
	case "state":
		s.facts.StateError = val
	case "infrastructure":
		for _, v := range vals {
			p := netip.MustParsePrefix(v)
			s.facts.Infrastructure = append(s.facts.Infrastructure, p)
			s.facts.Resolved.Exclude = append(s.facts.Resolved.Exclude, p)
		}
	case "headroom":
		share, _ := strconv.ParseFloat(val, 64)
		s.facts.Headroom = &Headroom{Share: share}
	case "balancer":
		s.facts.Balancer = true
	case "unresolved":
		s.facts.Unresolved = vals
	case "window": // window=(01:00,02:00)
		s.facts.Window = &Window{StartTime: vals[0], EndTime: vals[1]}
	case "other": // other=(ID,SERVER,on|30s)
		o := Other{ID: vals[0], Fleet: "office", Server: vals[1]}
		if vals[2] != "on" {
			o.Ended = s.now.Add(-duration(t, vals[2]))
		}
		s.facts.Others = append(s.facts.Others, o)
	default:
		d.Fatalf(t, "facts: %s", key)
	}
}

package run

import (
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// TestFlowAt: what the counter said between two readings is told by the usual
// rate, and lies between the two.
func TestFlowAt(t *testing.T) {
	read := func(ms int64, asked uint64) Asked { return Asked{BootID: "b", AtMs: ms, Asked: asked} }
	for name, x := range map[string]struct {
		recent []Asked
		want   uint64
	}{
		"half way":                         {[]Asked{read(10_000, 1000), read(11_000, 1080)}, 1050},
		"none were asked after the moment": {[]Asked{read(10_000, 1000), read(11_000, 1030)}, 1030},
		"the moment is before both":        {[]Asked{read(10_600, 1000), read(11_600, 1080)}, 1000},
		"one reading alone":                {[]Asked{read(11_000, 1080)}, 1080},
	} {
		m := &Flow{BaseFrom: read(0, 0), BaseTo: read(10_000, 1000), Recent: x.recent}
		if got := m.at(10_500); got.Asked != x.want || got.BootID != "b" {
			t.Errorf("%s: %+v, want %d", name, got, x.want)
		}
	}
}

// An upstream of which a server keeps no health is refused: nothing would notice.
func TestNoUpstreamHealth(t *testing.T) {
	s := Spec{Server: "a", Upstream: "10.0.0.1:53"}.WithDefaults()
	if s.OfUpstream() {
		t.Fatal("the stage is asked for, not guessed")
	}
	s.Stage = StageUpstream
	up := protocol.UpstreamState{Zone: ".", Address: "10.0.0.1:53", Healthy: true}
	f := Facts{Now: time.Now(), Servers: []ServerFacts{{Name: "a", Heard: true, State: protocol.State{Upstreams: []protocol.UpstreamState{up}}}}}
	refused := func() bool {
		for _, c := range Guards(s, f) {
			if c.Reason == NoHealthCheck {
				return !c.Passed
			}
		}
		return false
	}
	if !refused() {
		t.Error("without any health it is not refused")
	}
	f.Servers[0].State.Upstreams[0].Transports = []protocol.UpstreamTransport{{Transport: "udp"}}
	if refused() {
		t.Error("with it, it is")
	}
}

package e2e

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// A reload by signal takes effect on the control endpoint as one by the reload
// plugin does, the second time as the first: caddy throws its hooks away each
// time.
func TestReloadBySignal(t *testing.T) {
	l := newLab(t, 94)
	boot := l.state("ns1").BootID
	for i, want := range []bool{true, false, true} {
		more := ""
		if want {
			more = fmt.Sprintf("ready %s:8181 {\n monitor continuously\n }", l.ip(1))
		}
		l.corefile("ns1", more)
		l.ns["ns1"].signal(syscall.SIGUSR1)
		l.eventually(10*time.Second, fmt.Sprintf("reload %d shows on the control endpoint", i+1), func() bool {
			s := l.state("ns1")
			return s != nil && s.Ready != nil && s.Ready.Continuous == want
		})
		s := l.state("ns1")
		if s.BootID != boot {
			t.Fatal("it is another process")
		}
		if !slices.Contains(s.Features, protocol.FeatureDrill) {
			t.Errorf("features: %v", s.Features)
		}
		if !l.answers("ns1") {
			t.Error("ns1 does not answer")
		}
	}
}

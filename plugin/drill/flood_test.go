package drill_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/drill"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/miekg/dns"
)

// TestFloodOfHeldQueries asks for 50,000 DoH queries to be held: never more wait
// than there is room for, the others are refused at once and counted, and when
// the drill is over nobody waits.
func TestFloodOfHeldQueries(t *testing.T) {
	if testing.Short() {
		t.Skip("50,000 streams: not with -short")
	}
	const asked, connections, room = 50_000, 40, 4096
	s := start(t, drilling)
	startDrill(t, order(fresh("flood"), protocol.ModeDrop, victim+"/32"))
	askers := make([]asker, connections)
	for i := range askers {
		askers[i] = s.dial(t, "https", victim)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var refused, answered, given atomic.Int64
	var all sync.WaitGroup
	slots := make(chan struct{}, 2*room) // on their way at once: those that can wait, and as many more
	most := 0
	for i := range asked {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			m, err := askers[i%connections].ask(ctx, question())
			switch {
			case err != nil:
				given.Add(1)
			case m.Rcode == dns.RcodeRefused:
				refused.Add(1)
			default:
				answered.Add(1)
			}
		})
		if i%100 == 0 {
			most = max(most, drill.Current().Held())
		}
	}
	state := drill.Current().State()
	if _, problem := drill.Current().Delete(state.ID); problem != nil {
		t.Fatal(problem)
	}
	all.Wait()
	state = drill.Current().State()
	t.Logf("of %d: %d refused, %d reset while they waited, %d answered at the end; %d waited at most", asked, refused.Load(), given.Load(), answered.Load(), most)
	if most > room || most < room/2 {
		t.Errorf("%d waited at most; there is room for %d, and more were asked for", most, room)
	}
	if refused.Load() == 0 || state.Overflow != uint64(refused.Load()) {
		t.Errorf("%d were refused, %d counted", refused.Load(), state.Overflow)
	}
	waitFor(t, "nobody to wait", func() bool { return drill.Current().Held() == 0 })
}

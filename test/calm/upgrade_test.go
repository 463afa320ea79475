package calm_test

import (
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/load"
)

// upgradeRate is how many queries a second come over UDP meanwhile, beside those
// over TCP.
const upgradeRate = 20_000

// TestUpgrade: processes that follow one another at the same address, each started
// before the last one is told to end. No query is lost, no connection refused or
// reset.
func TestUpgrade(t *testing.T) {
	up, _ := quickUpstream(t)
	port := freePort(t)
	plugins := cacheOnly + " " + up
	old := launch(t, port, plugins, "name0.test.")
	time.Sleep(300 * time.Millisecond)
	rate := upgradeRate
	if testing.Short() { // with the race detector
		rate = 1000
	}
	udp := load.Start(t, old.addr, rawQuery(0, "name0.test."), 16, rate)
	tcp := startStreams(t, old.addr, 8)
	for range 3 {
		next := launch(t, port, plugins, "name0.test.")
		time.Sleep(1500 * time.Millisecond)
		old.Stop()
		old = next
	}
	time.Sleep(500 * time.Millisecond)
	tcp.end()
	lost := udp.End()
	t.Logf("UDP: %d queries, %d lost, %d wrong, none answered for at most %v; TCP: %s", udp.Sent(), lost, udp.Wrong(), udp.Gap(), tcp)
	if lost != 0 || udp.Wrong() != 0 {
		t.Errorf("of %d queries over UDP %d were lost, %d answered wrongly", udp.Sent(), lost, udp.Wrong())
	}
	if tcp.good.Load() != tcp.asked.Load() {
		t.Errorf("of %d queries over TCP %d were answered", tcp.asked.Load(), tcp.good.Load())
	}
}

// TestKilledBesideAnother: of two processes at the address one is killed, be it
// the older or the younger, which has all the packets. The other one answers.
func TestKilledBesideAnother(t *testing.T) {
	for _, younger := range []bool{true, false} {
		t.Run(map[bool]string{true: "the younger", false: "the older"}[younger], func(t *testing.T) {
			up, _ := quickUpstream(t)
			port := freePort(t)
			plugins := cacheOnly + " " + up
			victim, other := launch(t, port, plugins, "name0.test."), launch(t, port, plugins, "name0.test.")
			if younger {
				victim, other = other, victim
			}
			time.Sleep(1500 * time.Millisecond)
			udp := load.Start(t, other.addr, rawQuery(0, "name0.test."), 4, 2000)
			time.Sleep(500 * time.Millisecond)
			victim.Kill()
			time.Sleep(time.Second)
			lost := udp.End()
			t.Logf("%d queries, %d lost, none answered for at most %v", udp.Sent(), lost, udp.Gap())
			if udp.Gap() > 100*time.Millisecond && strict() || udp.Gap() > time.Second {
				t.Errorf("no answer for %v", udp.Gap())
			}
			if lost > 200 {
				t.Errorf("%d of 2,000 queries a second were lost", lost)
			}
		})
	}
}

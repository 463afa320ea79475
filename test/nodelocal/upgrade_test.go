//go:build linux

package nodelocal

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/load"

	"github.com/miekg/dns"
)

// upgradeRate is how many questions a second a pod asks over UDP.
const upgradeRate = 20_000

// Generations follow one another, each started before the last one is told to end,
// under the load of a large node, for a name that is held, as nearly all are, in both
// families and over TCP as well: no question is lost, no connection refused or reset.
func TestUpgrade(t *testing.T) {
	l := newLabAlone(t)
	l.clusterDNS()
	before := l.state()
	addrs := []netip.Addr{local4, local6, service4, service6}
	old := l.nodeServer(conf{addrs: addrs}).captured()
	time.Sleep(time.Second) // it looks for its sockets
	packet, err := new(dns.Msg).SetQuestion("held.test.", dns.TypeTXT).Pack()
	if err != nil {
		t.Fatal(err)
	}
	udp := map[netip.Addr]*load.Load{}
	for _, a := range []netip.Addr{service4, service6} {
		if err := within(l.pod, func() {
			udp[a] = load.Start(t, netip.AddrPortFrom(a, 53).String(), packet, 16, upgradeRate/2)
		}); err != nil {
			t.Fatal(err)
		}
	}
	var tcp sync.WaitGroup
	var asked atomic.Int64
	stop := make(chan struct{})
	for _, a := range []netip.Addr{service4, service6, local4, local6} {
		tcp.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				asked.Add(1)
				if got := l.ask(l.pod2, "tcp", a, "who.test.", time.Second); got != "node" {
					t.Errorf("over TCP %s was answered by %q", a, got)
				}
			}
		})
	}
	for n := range 3 {
		next := l.nodeServer(conf{addrs: addrs, ready: []string{"8281", "8181"}[n%2]}).captured()
		time.Sleep(time.Second)
		old.stop()
		old = next
	}
	time.Sleep(500 * time.Millisecond)
	close(stop)
	tcp.Wait()
	for a, u := range udp {
		lost := u.End()
		t.Logf("%s: %d questions over UDP, %d lost, %d wrong, none answered for at most %s", a, u.Sent(), lost, u.Wrong(), u.Gap().Round(time.Millisecond))
		if lost != 0 || u.Wrong() != 0 {
			t.Errorf("%s: of %d questions over UDP %d were lost and %d answered wrongly", a, u.Sent(), lost, u.Wrong())
		}
	}
	t.Logf("%d questions over TCP", asked.Load())
	if asked.Load() < 100 {
		t.Error("too few were asked over TCP for a test")
	}
	old.stop()
	l.same(before)
}

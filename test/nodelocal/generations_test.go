//go:build linux

package nodelocal

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// command is one in a namespace.
func command(ns string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", ns}, args...)...)
}

// watcher collects what a program says: of every change of links, addresses and
// rules.
type watcher struct {
	mu   sync.Mutex
	text bytes.Buffer
	cmd  *exec.Cmd
}

func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *watcher) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// forget is for what was said before.
func (w *watcher) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Reset()
}

func (l *lab) watch(args ...string) *watcher {
	l.t.Helper()
	w := &watcher{cmd: command(l.node, args...)}
	w.cmd.Stdout, w.cmd.Stderr = w, w
	if err := start(w.cmd); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = w.cmd.Process.Kill(); _ = w.cmd.Wait() })
	return w
}

// Old and new live at once: the newest has the link, nobody writes anything, and
// whichever ends, the other goes on.
func TestGenerations(t *testing.T) {
	l := newLabAlone(t)
	l.clusterDNS()
	before := l.state()
	addrs := []netip.Addr{local4, local6, service4, service6}
	old := l.nodeServer(conf{addrs: addrs}).captured()
	pods := l.stream(l.pod, service4)
	young := l.nodeServer(conf{addrs: addrs, ready: "8281"}).captured()
	old.says(2*time.Second, "A newer generation has the link")
	until(t, 2*time.Second, "both know each other", func() bool {
		return strings.Contains(old.metrics(), "coredns_nodelocal_owner 0") && strings.Contains(young.metrics(), "coredns_nodelocal_generations 2")
	})
	if !old.isReady() || !young.isReady() {
		t.Error("one of the two is not ready")
	}

	rules, links := l.watch("nft", "monitor"), l.watch("ip", "monitor", "link", "address", "route")
	time.Sleep(300 * time.Millisecond)
	rules.forget()
	links.forget()
	time.Sleep(3 * time.Second)
	// The kernel speaks of the pods' links too, for reasons of its own.
	said := rules.said()
	for line := range strings.Lines(links.said()) {
		if strings.Contains(line, "nodelocaldns") || slices.ContainsFunc(addrs, func(a netip.Addr) bool { return strings.Contains(line, a.String()) }) {
			said += line
		}
	}
	if said != "" {
		t.Errorf("somebody writes while both live:\n%s", said)
	}
	// The watchers see something: else they prove nothing.
	l.in(l.node, "ip", "addr", "del", local4.String()+"/32", "dev", "nodelocaldns")
	until(t, time.Second, "the newest puts it back", func() bool {
		return strings.Contains(l.in(l.node, "ip", "-o", "addr", "show", "dev", "nodelocaldns"), local4.String())
	})
	if !strings.Contains(links.said(), local4.String()) {
		t.Error("the watcher is blind")
	}
	young.says(time.Second, "it is back")
	if strings.Contains(old.said(), "it is back") {
		t.Error("the older one repaired as well")
	}

	old.stop()
	old.says(time.Second, "is left to the other generation")
	if err := l.whole(addrs); err != nil {
		t.Errorf("after the old one ended: %v", err)
	}
	l.holds("node", addrs...)
	if lost := pods.stop(); lost > 0 {
		t.Logf("%d of %d questions were lost; the sockets' drain is not this test's", lost, pods.asked)
	}
	young.stop()
	l.same(before)
}

// The newest is killed: the older one, which lives, answers within 100 ms and has
// link and rules within a second, one set.
func TestKilledWithSibling(t *testing.T) {
	l := newLabAlone(t)
	l.clusterDNS()
	before := l.state()
	addrs := []netip.Addr{local4, local6, service4, service6}
	old := l.nodeServer(conf{addrs: addrs}).captured()
	young := l.nodeServer(conf{addrs: addrs, ready: "8281", scrape: "8183"}).captured()
	owns := func(s *server) bool { return strings.Contains(s.state(), `"owner":true`) }
	until(t, 2*time.Second, "the newest owns", func() bool { return owns(young) && !owns(old) })
	// Both have one address for metrics: who scrapes it reads the newest.
	until(t, 3*time.Second, "each of 20 scrapes reads the newest", func() bool {
		for range 20 {
			if m := old.metrics(); !strings.Contains(m, "coredns_nodelocal_owner 1") || !strings.Contains(m, "coredns_nodelocal_generations 2") {
				return false
			}
		}
		return true
	})
	// A process ends when it gets the CPU to do so: the time is held on a quiet machine.
	most := 500 * time.Millisecond
	if os.Getenv("FIREBREAK_SOAK") != "" {
		most = 100 * time.Millisecond
	}
	streams := map[netip.Addr]*stream{local4: l.stream(l.pod, local4), service6: l.stream(l.pod2, service6)}
	time.Sleep(500 * time.Millisecond)
	young.kill()
	took := until(t, time.Second, "the older one owns", func() bool { return owns(old) })
	t.Logf("the older one owns %s after kill -9", took.Round(time.Millisecond))
	time.Sleep(500 * time.Millisecond)
	for a, s := range streams {
		lost := s.stop()
		t.Logf("%s: %d of %d questions lost, the longest time without an answer %s", a, lost, s.asked, s.longest().Round(time.Millisecond))
		if s.longest() > most {
			t.Errorf("%s was not answered for %s, want at most %s", a, s.longest(), most)
		}
	}
	if err := l.whole(addrs); err != nil {
		t.Errorf("after kill -9: %v", err)
	}
	if m := old.metrics(); !strings.Contains(m, "coredns_nodelocal_owner 1") || !strings.Contains(m, "coredns_nodelocal_generations 1\n") {
		t.Error("a scrape does not read the one that is left")
	}
	// It keeps, too.
	l.in(l.node, "ip", "link", "del", "nodelocaldns")
	until(t, time.Second, "the older one puts the link back", func() bool { return l.whole(addrs) == nil })
	l.holds("node", addrs...)
	old.stop()
	l.same(before)
}

// A newer one that cannot answer captures nothing, gets nothing, and says that it is
// not ready: all that is asked goes on being answered by the older one, also what only
// upstreams know.
func TestNewerIsBroken(t *testing.T) {
	l := newLabAlone(t)
	l.clusterDNS()
	addrs := []netip.Addr{local4, service4}
	old := l.nodeServer(conf{addrs: addrs}).captured()
	time.Sleep(time.Second) // it looks for its sockets
	stop, done := make(chan struct{}), make(chan error, 2)
	for _, network := range []string{"udp", "tcp"} {
		go func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					if done <- nil; n < 20 {
						t.Errorf("only %d were asked over %s", n, network)
					}
					return
				default:
				}
				if got := l.ask(l.pod, network, service4, fmt.Sprintf("name%d-%s.test.", n, network), time.Second); got != "cluster" {
					done <- fmt.Errorf("name %d is answered by %q over %s", n, got, network)
					return
				}
			}
		}()
	}
	young := l.nodeServer(conf{addrs: addrs, ready: "8281", upstream: "10.244.1.99", check: "never.test."})
	young.says(15*time.Second, "Not captured")
	time.Sleep(12 * time.Second) // longer than one may take that shares packets with another
	if young.isReady() || !old.isReady() {
		t.Errorf("ready: the broken %v, the old %v", young.isReady(), old.isReady())
	}
	close(stop)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	select {
	case <-young.exited:
		t.Error("the broken one ended")
	default:
	}
	young.stop()
	until(t, time.Second, "the old one owns", func() bool { return strings.Contains(old.metrics(), "coredns_nodelocal_owner 1") })
	until(t, time.Second, "all is whole", func() bool { return l.whole(addrs) == nil })
	l.holds("node", addrs...)
}

// Without nodecache the kernel gives a newer one its share from the moment it listens,
// so one that cannot answer ends, says why, and the older one has all packets again.
func TestNewerIsBrokenUncached(t *testing.T) {
	l := newLab(t)
	l.clusterDNS()
	addrs := []netip.Addr{local4, service4}
	old := l.nodeServer(conf{addrs: addrs, uncached: true}).captured()
	young := l.nodeServer(conf{addrs: addrs, uncached: true, ready: "8281", upstream: "10.244.1.99", check: "never.test."})
	select {
	case <-young.exited:
	case <-time.After(30 * time.Second):
		t.Fatal("the one that cannot answer is still there after 30 s")
	}
	if said := young.said(); !strings.Contains(said, "An older generation") {
		t.Errorf("it ended and did not say why: %s", said)
	}
	if !old.isReady() {
		t.Error("the old one is not ready")
	}
	for i := range 20 {
		if got := l.ask(l.pod, "udp", service4, fmt.Sprintf("name%d.test.", i), time.Second); got != "cluster" {
			t.Fatalf("with the old one alone, a name is answered by %q", got)
		}
	}
	l.holds("node", addrs...)
}

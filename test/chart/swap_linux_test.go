package chart

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// swapped is what a swap did on its host.
type swapped struct {
	Error        string
	Beside, Lost int           // questions while both ran, and those that had no answer
	Away         time.Duration // from the link's removal to the next answer
	PutBack      bool          // it is another link of that name
	Ready        string        // what the probe said in the end
	Log          string
}

// A node goes from NodeLocal DNSCache to the node cache as docs/migrate-from-nodelocal.md
// has it: both at once, then NodeLocal DNSCache ends and takes the link with it. In
// its place stands CoreDNS, which it is made of, with its Corefile, link and address.
func TestSwap(t *testing.T) {
	rendered, err := render(t, filepath.Join("testdata", "link-local.values.yaml"), "--set", "clusterDNS.serviceIPs={"+serviceIP+"}")
	if err != nil {
		t.Fatal(err)
	}
	var s swapped
	onHost(t, &s, "swap", program(t, "coredns"), corefileOf(t, rendered))
	if s.Error != "" {
		t.Fatalf("%s\n%s", s.Error, s.Log)
	}
	if s.Beside < 100 || s.Lost > 0 {
		t.Errorf("While both ran, %d of %d questions had no answer, want none of at least 100\n%s", s.Lost, s.Beside, s.Log)
	}
	if s.Away > 2*time.Second {
		t.Errorf("Without the link, the next answer came after %s, want the link back within a second\n%s", s.Away, s.Log)
	}
	if !s.PutBack {
		t.Errorf("The link is the one from before, want another: it was removed\n%s", s.Log)
	}
	if want := "unix:///run/firebreak/control.sock: ready"; s.Ready != want {
		t.Errorf("In the end: %q, want %q\n%s", s.Ready, want, s.Log)
	}
	t.Logf("%d questions while both ran, %d lost; answers again %s after the link was removed", s.Beside, s.Lost, s.Away.Round(time.Millisecond))
}

const nodeAddress = "169.254.20.10"

func swapInside(coredns, corefile string) (s swapped) {
	fail := func(err error) swapped { s.Error = err.Error(); return s }
	if err := host([]string{worldIP, serviceIP}); err != nil {
		return fail(err)
	}
	// A dummy where the kernel has one, as NodeLocal DNSCache would.
	if ip("link", "add", "nodelocaldns", "type", "dummy") != nil {
		if err := ip("link", "add", "nodelocaldns", "type", "ifb"); err != nil {
			return fail(err)
		}
	}
	for _, args := range [][]string{{"link", "set", "nodelocaldns", "up"}, {"address", "add", nodeAddress + "/32", "dev", "nodelocaldns"}} {
		if err := ip(args...); err != nil {
			return fail(err)
		}
	}
	old := filepath.Join(filepath.Dir(corefile), "old")
	text := ".:53 {\n bind " + nodeAddress + "\n errors\n cache 30\n forward . " + worldIP + "\n}\n"
	if err := os.WriteFile(old, []byte(text), 0o600); err != nil {
		return fail(err)
	}
	before := exec.Command(coredns, "-conf", old)
	if err := before.Start(); err != nil {
		return fail(err)
	}
	if err := until(10*time.Second, ask); err != nil {
		return fail(fmt.Errorf("the one before does not answer: %w", err))
	}

	var asked, lost atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				asked.Add(1)
				if ask() != nil {
					lost.Add(1)
				}
			}
		}
	}()
	p, err := begin(coredns, corefile)
	if err != nil {
		return fail(err)
	}
	defer func() { p.stop(); s.Log = p.log.String() }()
	err = until(20*time.Second, func() (err error) { s.Ready, err = p.probe(); return err })
	if err == nil {
		time.Sleep(time.Second) // both, for a while
	}
	close(stop)
	<-stopped
	s.Beside, s.Lost = int(asked.Load()), int(lost.Load())
	if err != nil {
		return fail(fmt.Errorf("the node cache is not ready beside the one before: %s", s.Ready))
	}

	_ = before.Process.Signal(syscall.SIGTERM)
	_ = before.Wait() // its exit code is not ours
	link, err := net.InterfaceByName("nodelocaldns")
	if err != nil {
		return fail(err)
	}
	removed := time.Now()
	if err := ip("link", "del", "nodelocaldns"); err != nil {
		return fail(err)
	}
	if err := until(10*time.Second, ask); err != nil {
		return fail(fmt.Errorf("no answer after the link was removed: %w", err))
	}
	s.Away = time.Since(removed)
	if now, err := net.InterfaceByName("nodelocaldns"); err == nil {
		s.PutBack = now.Index != link.Index
	}
	_ = until(5*time.Second, func() (err error) { s.Ready, err = p.probe(); return err }) // what it said last is looked at
	return s
}

// ask asks the node's address for a name.
func ask() error {
	m := new(dns.Msg).SetQuestion("kubernetes.default.svc.cluster.local.", dns.TypeA)
	r, _, err := (&dns.Client{Timeout: time.Second}).Exchange(m, nodeAddress+":53")
	if err == nil && r.Rcode != dns.RcodeSuccess {
		err = fmt.Errorf("it answered %s", dns.RcodeToString[r.Rcode])
	}
	return err
}

// until tries until try returns nil, or for so long.
func until(limit time.Duration, try func() error) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if err := try(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

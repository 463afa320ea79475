package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// cacheLab is a lab whose ns1 is a node cache in front of two upstreams of its
// own, on hosts 31 and 32.
func cacheLab(t *testing.T, net int) (l *lab, upstreams []string) {
	t.Helper()
	l = newLab(t, net)
	for _, host := range []int{31, 32} {
		upstreams = append(upstreams, l.upstream(host))
	}
	l.ns["ns1"].kill()
	l.write("ns1.conf", fmt.Sprintf(`.:1053 {
    bind %s
    errors
    control %s
    clients
    drill
    nodecache
    hedge . %s
}
`, l.ip(1), l.control("ns1"), strings.Join(upstreams, " ")))
	l.server("ns1")
	return l, upstreams
}

func (l *lab) write(name, text string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// upstream starts a server that answers everything, and returns its address.
func (l *lab) upstream(host int) string {
	l.t.Helper()
	name := fmt.Sprintf("up%d", host)
	l.write(name+".conf", fmt.Sprintf(`.:1053 {
    bind %s
    errors
    template IN ANY {
        answer "{{ .Name }} 5 IN A 192.0.2.%d"
    }
}
`, l.ip(host), host))
	l.start(name, nil, built.coredns(), "-conf", filepath.Join(l.dir, name+".conf"))
	addr := net.JoinHostPort(l.ip(host), "1053")
	l.eventually(10*time.Second, name+" answers", func() bool {
		m := new(dns.Msg)
		m.SetQuestion("www.example.", dns.TypeA)
		r, _, err := (&dns.Client{Timeout: 300 * time.Millisecond}).Exchange(m, addr)
		return err == nil && r.Rcode == dns.RcodeSuccess
	})
	return addr
}

// crowd are clients of ns1 that ask for a name each time that nobody asked for
// before, so that every question goes upstream.
type crowd struct {
	hurry       atomic.Bool
	asked, lost atomic.Int64
	mu          sync.Mutex
	why         []string // of those that were lost
}

// pause between two questions of a client. Only once the drill is on they hurry:
// how long answers take on a machine that does much else says nothing of the
// cache, and of fewer than a hundred answers before, the run does not judge it.
func (c *crowd) pause() time.Duration {
	if c.hurry.Load() {
		return 20 * time.Millisecond
	}
	return 300 * time.Millisecond
}

func (l *lab) crowd(clients int) *crowd {
	c := new(crowd)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	for i := range clients {
		done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r, err := l.ask(50+i, "ns1", fmt.Sprintf("q%d-%d.crowd.example.", i, n), 3*time.Second)
				c.asked.Add(1)
				if err != nil || r.Rcode != dns.RcodeSuccess || len(r.Answer) != 1 {
					c.lost.Add(1)
					c.mu.Lock()
					c.why = append(c.why, fmt.Sprintf("%s: %v %v", time.Now().Format(time.TimeOnly), err, r))
					c.mu.Unlock()
				}
				select {
				case <-ctx.Done():
				case <-time.After(c.pause()):
				}
			}
		})
	}
	l.t.Cleanup(func() { cancel(); done.Wait() })
	return c
}

func (c *crowd) noneLost(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost.Load() != 0 || c.asked.Load() == 0 {
		t.Errorf("%d of %d lost: %v", c.lost.Load(), c.asked.Load(), c.why)
	}
}

// loseUpstream starts a drill of ns1's upstream, and waits until it is away.
// From right before that on the clients hurry.
func (c *controller) loseUpstream(clients *crowd, address string, mode protocol.DrillMode, seconds int) string {
	c.l.t.Helper()
	var report run.Report
	if status := c.call("POST", drill("ns1"), view.DrillRequest{Upstream: address, Mode: mode, DurationSeconds: seconds, Reason: "e2e"}, &report); status != http.StatusAccepted {
		c.l.t.Fatalf("%d: %+v", status, report)
	}
	c.l.eventually(10*time.Second, "the drill begins", func() bool {
		c.call("GET", view.PathDrills+"/"+report.ID, nil, &report)
		return report.Phase != run.Planned && report.Phase != run.Reading && report.Phase != run.Asking
	})
	clients.hurry.Store(true)
	c.l.eventually(10*time.Second, "the upstream is away", func() bool { return c.l.away("ns1") == report.ID })
	return report.ID
}

// away is the outage that is on on a server, "" for none.
func (l *lab) away(name string) string {
	if s := l.state(name); s != nil && s.Outage != nil && s.Outage.Ended == nil {
		return s.Outage.ID
	}
	return ""
}

// A cache loses one of its two upstreams under load: no client notices, the run
// says that the cache did, and the upstream is asked again. Once with the
// controller killed in the middle: the next one goes on.
func TestUpstream(t *testing.T) {
	l, upstreams := cacheLab(t, 95)
	c := l.controller("c", short())
	clients := l.crowd(8)
	time.Sleep(2 * time.Second)

	if why := c.refused("ns1", view.DrillRequest{Upstream: "192.0.2.1", Reason: "e2e"}); why != run.TargetNotFound {
		t.Errorf("an upstream that there is not: %s", why)
	}
	if why := c.refused("ns2", view.DrillRequest{Upstream: upstreams[0], Reason: "e2e"}); why != run.TargetNotFound {
		t.Errorf("a server without hedge: %s", why)
	}

	for _, round := range []struct {
		mode     protocol.DrillMode
		upstream string
		kill     bool
	}{{run.ModeBlackhole, upstreams[0], false}, {run.ModeDown, upstreams[1], true}} {
		id := c.loseUpstream(clients, round.upstream, round.mode, 15)
		if why := c.refused("ns2", view.DrillRequest{Everyone: true, Reason: "e2e"}); why != run.DrillRunning {
			t.Errorf("another drill beside it: %s", why)
		}
		if round.kill {
			time.Sleep(3 * time.Second)
			c.kill()
			if got := l.away("ns1"); got != id {
				t.Errorf("away after the kill: %q", got)
			}
			c = l.controller("c", short())
		}
		report := c.final(id, 90*time.Second)
		clients.hurry.Store(false)
		if report.Outcome != run.Passed || report.Reason != run.FailoverWorked {
			t.Fatalf("%s: %s %s: %s\n%+v", round.mode, report.Outcome, report.Reason, report.Message, report.Timeline)
		}
		// A second of silence is what it takes to be sure; moved is told from counters
		// that are read once a second.
		if report.TimeToNoticeSeconds == nil || *report.TimeToNoticeSeconds > 3 || report.TimeToMoveSeconds == nil || *report.TimeToMoveSeconds > 6 || report.BackSeconds == nil {
			t.Errorf("%s: noticed %v moved %v back %v", round.mode, report.TimeToNoticeSeconds, report.TimeToMoveSeconds, report.BackSeconds)
		}
		if len(report.Upstreams) != 2 || report.Upstreams[0].Address != round.upstream || report.Upstreams[0].Role != run.RoleDrilled ||
			report.Upstreams[0].Ejected == "" || report.Upstreams[1].During <= report.Upstreams[1].Before || report.During == nil || report.During.Errors != 0 {
			t.Errorf("%s: upstreams %+v, during %+v", round.mode, report.Upstreams, report.During)
		}
		clients.noneLost(t)
		asked := l.asked(round.upstream)
		l.eventually(5*time.Second, round.upstream+" is asked again", func() bool { return l.asked(round.upstream) > asked })
		l.clean(8 * time.Second)
		if got := l.away("ns1"); got != "" {
			t.Errorf("%s is left", got)
		}
		t.Logf("%s: %s; moved after %.1f s, back after %.1f s; %d asked", round.mode, report.Message, *report.TimeToMoveSeconds, *report.BackSeconds, clients.asked.Load())
	}
	clients.noneLost(t)
}

// The controller is killed and nobody starts another: the cache asks its upstream
// again within the lease, long before the outage would have ended.
func TestUpstreamControllerKilledForGood(t *testing.T) {
	l, upstreams := cacheLab(t, 96)
	c := l.controller("c", short())
	clients := l.crowd(4)
	time.Sleep(2 * time.Second)
	id := c.loseUpstream(clients, upstreams[0], run.ModeBlackhole, 120)
	c.kill()
	l.eventually(31*time.Second, "the outage is over", func() bool { return l.away("ns1") == "" })
	c = l.controller("c", short())
	report := c.final(id, 60*time.Second)
	if report.Outcome != run.Stopped || report.Reason != run.ControllerLost {
		t.Errorf("%s %s: %s", report.Outcome, report.Reason, report.Message)
	}
	clients.noneLost(t)
	l.clean(10 * time.Second)
}

// asked is how many questions ns1 has sent to an upstream.
func (l *lab) asked(upstream string) uint64 {
	s := l.state("ns1")
	if s == nil {
		return 0
	}
	for _, u := range s.Upstreams {
		if u.Address == upstream {
			return u.Asked
		}
	}
	return 0
}

package calm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/miekg/dns"
)

// controller calls a server's control endpoint.
type controller struct {
	client *http.Client
	boot   string
}

func newController(t testing.TB, socket string) *controller {
	t.Helper()
	c := &controller{client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}}
	var s protocol.State
	status, text := c.call(http.MethodGet, protocol.PathState, nil)
	if status != http.StatusOK || json.Unmarshal([]byte(text), &s) != nil {
		t.Fatalf("state: %d %s", status, text)
	}
	c.boot = s.BootID
	return c
}

// call returns the status, or 0 with why there is none.
func (c *controller) call(method, path string, body any) (status int, text string) {
	var b []byte
	if body != nil {
		b, _ = json.Marshal(body) // structs of the protocol
	}
	r, err := http.NewRequest(method, "http://control"+path, strings.NewReader(string(b)))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set(protocol.BootHeader, c.boot)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := c.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(out)
}

// TestEverythingAtOnce is for the race detector: hits and misses over UDP and
// TCP, while Corefiles are reloaded, drills come and go, upstreams are taken away
// and misbehave, and names are purged. Whatever happens, nobody gets a wrong
// answer, and no hit of a client that is not drilled is lost.
func TestEverythingAtOnce(t *testing.T) {
	const length = 6 * time.Second
	ups, addrs := upstreams(t, 3)
	socket := filepath.Join(t.TempDir(), "control.sock")
	plugins := "errors\nclients\ndrill\nprometheus 127.0.0.1:0\ncontrol unix://" + socket + "\nnodecache {\nsuccess 0 30\n}\nhedge ." + addrs
	s := start(t, plugins)
	c := newController(t, socket)
	if _, _, err := ask(s.addr, "hot.test.", 4*time.Second); err != nil {
		t.Fatal(err)
	}

	stop := make(chan struct{})
	var running sync.WaitGroup
	every := func(d time.Duration, do func(i int)) {
		running.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(d):
					do(i)
				}
			}
		})
	}
	var wrong, misses, failed, overTCP, drilled atomic.Int64
	judge := func(r *dns.Msg, err error) bool {
		switch b := bad(r, err); {
		case b == "":
			return true
		case strings.HasPrefix(b, "wrong"):
			wrong.Add(1)
			t.Error(b)
		}
		return false
	}
	for k := range 4 {
		every(4*time.Millisecond, func(i int) {
			misses.Add(1)
			if r, _, err := ask(s.addr, fmt.Sprintf("miss%d-%d.test.", k, i), 6*time.Second); !judge(r, err) {
				failed.Add(1)
			}
		})
	}
	every(5*time.Millisecond, func(i int) {
		name := "hot.test."
		if i%2 == 0 {
			name = fmt.Sprintf("tcp%d.test.", i)
		}
		r, _, err := (&dns.Client{Net: "tcp", Timeout: 6 * time.Second}).Exchange(query(name), s.addr)
		judge(r, err)
		overTCP.Add(1)
	})
	// A client on another address, which the drills are about.
	every(3*time.Millisecond, func(int) {
		d := &dns.Client{Timeout: 20 * time.Millisecond, Dialer: &net.Dialer{Timeout: time.Second, LocalAddr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)}}}
		r, _, err := d.Exchange(query("hot.test."), s.addr)
		if err != nil {
			drilled.Add(1)
			return
		}
		judge(r, nil)
	})
	reloads := 0
	every(400*time.Millisecond, func(i int) {
		s.reload(t, strings.Replace(plugins, "success 0 30", fmt.Sprintf("success 0 %d", 20+i%20), 1))
		reloads++
	})
	var drills, outages, unheard atomic.Int64
	must := func(what string, counted *atomic.Int64, method, path string, body any) bool {
		for range 50 {
			switch status, text := c.call(method, path, body); status {
			case http.StatusOK, http.StatusNoContent:
				counted.Add(1)
				return true
			case 0: // a reload is handing the endpoint over
				unheard.Add(1)
				time.Sleep(20 * time.Millisecond)
				continue
			default:
				t.Errorf("%s: %d %s", what, status, text)
			}
			return false
		}
		t.Errorf("%s: never heard", what)
		return false
	}
	var ignore atomic.Int64
	every(150*time.Millisecond, func(i int) {
		id := fmt.Sprintf("d%d", i)
		targets := []string{"127.0.0.2/32"}
		mode := []protocol.DrillMode{protocol.ModeDrop, protocol.ModeRefused}[i%2]
		if !must("recording", &ignore, http.MethodPut, protocol.PathRecordings+id, protocol.RecordingOrder{Fleet: "f", Seconds: 60, Targets: targets}) {
			return
		}
		if must("drill", &drills, http.MethodPut, protocol.PathDrill, protocol.Order{
			ID: id, Fleet: "f", Mode: mode, DurationSeconds: protocol.MinDrillSeconds, Readiness: protocol.ReadinessPass,
			Targets: targets, ProbeToken: "00112233445566778899aabbccddeeff",
		}) {
			time.Sleep(80 * time.Millisecond)
			must("end of drill", &ignore, http.MethodDelete, protocol.PathDrills+id, nil)
		}
		must("end of recording", &ignore, http.MethodDelete, protocol.PathRecordings+id, nil)
	})
	every(170*time.Millisecond, func(i int) {
		path := protocol.PathUpstreams + url.PathEscape(ups[0].Addr()) + "/outage"
		id := fmt.Sprintf("o%d", i)
		if must("outage", &outages, http.MethodPut, path, protocol.OutageOrder{
			ID: id, Fleet: "f", Kind: []protocol.OutageKind{protocol.OutageBlackhole, protocol.OutageDown}[i%2],
			DurationSeconds: protocol.MinDrillSeconds, By: "a test", Reason: "to see",
		}) {
			time.Sleep(300 * time.Millisecond)
			must("end of outage", &ignore, http.MethodDelete, path+"?id="+id, nil)
		}
	})
	every(60*time.Millisecond, func(i int) {
		ups[1].Set([]string{"* servfail", "", "* wrongid answer 203.0.113.66", "* loss 30%", "", "*@udp truncate", "* garbage", "* delay 30ms-90ms"}[i%8])
		must("purge", &ignore, http.MethodPost, protocol.PathPurge, map[string]any{"name": fmt.Sprintf("miss%d-%d.test", i%4, i), "subtree": true})
	})

	hits := newHerd(t, s.addr, int(length/(2*time.Millisecond)), 2*time.Millisecond, func(int) string { return "hot.test." })
	all := hits.end(6 * time.Second)
	close(stop)
	running.Wait()
	t.Logf("%d hits, 99 %% within %s; %d misses, %d of them failed; %d over TCP; the drilled client was silent %d times; %d reloads, %d drills, %d outages, %d orders unheard",
		len(all), percentile(all, 99), misses.Load(), failed.Load(), overTCP.Load(), drilled.Load(), reloads, drills.Load(), outages.Load(), unheard.Load())
	if f := failures(all); len(f) > 0 {
		t.Errorf("hits without their answer: %v", f)
	}
	if reloads < 4 || drills.Load() < 4 || outages.Load() < 3 || drilled.Load() == 0 || overTCP.Load() < 50 {
		t.Error("there was too little of something for this to say anything")
	}
	if failed.Load() > misses.Load()/5 {
		t.Errorf("%d of %d misses failed although one upstream was well all along", failed.Load(), misses.Load())
	}
}

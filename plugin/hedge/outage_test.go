package hedge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// controller calls a server's control endpoint.
type controller struct {
	client *http.Client
	boot   string
}

func (c *controller) call(t *testing.T, method, path, body string, into any) (status int, problem string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://control"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(protocol.BootHeader, c.boot)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := c.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return res.StatusCode, string(text)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return res.StatusCode, ""
}

func order(id, kind string, seconds int) string {
	return fmt.Sprintf(`{"id":%q,"fleet":"nodes","kind":%q,"durationSeconds":%d,"by":"a test","reason":"to see"}`, id, kind, seconds)
}

func outagePath(address string) string {
	return protocol.PathUpstreams + url.PathEscape(address) + "/outage"
}

// TestOutage: over the control endpoint, an upstream is taken away in both ways;
// no client notices, it is ejected by the ordinary rules, and it comes back.
func TestOutage(t *testing.T) {
	ups, addrs := upstreams(t, 2)
	socket := filepath.Join(t.TempDir(), "control.sock")
	s := serve(t, "hedge ."+addrs+"\ncontrol unix://"+socket)
	c := &controller{client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}}
	var st protocol.State
	if status, problem := c.call(t, "GET", protocol.PathState, "", &st); status != 200 {
		t.Fatal(problem)
	}
	c.boot = st.BootID
	if len(st.Upstreams) != 2 || !st.Upstreams[0].Healthy || st.Upstreams[0].Zone != "." || fmt.Sprint(st.Features) != "[upstreams]" {
		t.Errorf("state: %+v %v", st.Upstreams, st.Features)
	}
	s.load(40, 2*time.Millisecond, fresh).noneFailed(t)

	a := ups[0].Addr()
	for _, test := range []struct {
		method, path, body, want string
		status                   int
	}{
		{"PUT", outagePath(a), order("d1", "gone", 30), "kind", 400},
		{"PUT", outagePath(a), order("d1", "down", 5), "durationSeconds", 400},
		{"PUT", outagePath(a), order("d1", "down", 301), "15 to 300", 400},
		{"PUT", outagePath(a), order("D 1", "down", 30), "drill's id", 400},
		{"PUT", outagePath(a), `{"id":"d1","kind":"down","durationSeconds":30,"exclude":[]}`, "unknown field", 400},
		{"PUT", outagePath(a), `{"id":"d1","kind":"down","durationSeconds":30,"by":"a\nb"}`, "control character", 400},
		{"PUT", outagePath("nobody"), order("d1", "down", 30), "no upstream's address", 400},
		{"PUT", outagePath("10.9.9.9:53"), order("d1", "down", 30), "NotFound", 404},
		{"DELETE", outagePath(a), "", "drill's id", 400},
	} {
		if status, problem := c.call(t, test.method, test.path, test.body, nil); status != test.status || !strings.Contains(problem, test.want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", test.method, test.path, test.body, status, problem, test.status, test.want)
		}
	}

	for i, kind := range []protocol.OutageKind{protocol.OutageBlackhole, protocol.OutageDown} {
		id := fmt.Sprintf("d%d", i+1)
		ups[0].Reset()
		var o protocol.OutageState
		if status, problem := c.call(t, "PUT", outagePath(a), order(id, string(kind), 30), &o); status != 200 || o.Ended != nil || o.EndsAt.Sub(o.Started) != 30*time.Second {
			t.Fatalf("%s: %d %s %+v", kind, status, problem, o)
		}
		if status, problem := c.call(t, "PUT", outagePath(a), order(id, string(kind), 30), &o); status != 200 {
			t.Errorf("the same order again: %d %s", status, problem)
		}
		if status, problem := c.call(t, "PUT", outagePath(ups[1].Addr()), order("other", "down", 30), nil); status != 409 || !strings.Contains(problem, "DrillRunning") {
			t.Errorf("another order: %d %s", status, problem)
		}
		for range 10 {
			if s.load(100, 4*time.Millisecond, fresh).noneFailed(t); ejected(t, a) {
				break
			}
		}
		within(t, time.Second, string(kind)+": ejected", func() bool { return ejected(t, a) })
		n := asked(ups[0])
		if kind == protocol.OutageBlackhole && n > 0 {
			t.Errorf("%d reached the black-holed upstream", n)
		}
		s.reload(t, "hedge ."+addrs+"\ncontrol unix://"+socket)
		if status, problem := c.call(t, "GET", protocol.PathState, "", &st); status != 200 || st.Outage == nil || st.Outage.Ended != nil || st.Outage.Hit == 0 {
			t.Errorf("a reload ended it: %s %+v", problem, st.Outage)
		}
		if status, problem := c.call(t, "DELETE", outagePath(a)+"?id="+id, "", &o); status != 200 || o.End != protocol.EndDeleted || o.Ended == nil || o.Hit == 0 {
			t.Errorf("delete: %d %s %+v", status, problem, o)
		}
		if status, problem := c.call(t, "PUT", outagePath(a), order(id, string(kind), 30), nil); status != 409 || !strings.Contains(problem, "DrillEnded") {
			t.Errorf("a late order: %d %s", status, problem)
		}
		within(t, 6*time.Second, string(kind)+": asked again", func() bool { return !ejected(t, a) })
	}

	ups[1].Set("* drop")
	s.load(200, 4*time.Millisecond, fresh).noneFailed(t)
	within(t, 2*time.Second, "the other is ejected", func() bool { return ejected(t, ups[1].Addr()) })
	if status, problem := c.call(t, "PUT", outagePath(a), order("last", "down", 30), nil); status != 409 || !strings.Contains(problem, "LastHealthy") {
		t.Errorf("the last healthy one: %d %s", status, problem)
	}
}

// TestOutageEnds: an outage ends by itself, on the monotonic clock, and when
// nobody hedges any more.
func TestOutageEnds(t *testing.T) {
	k := &outageKeeper{ended: make(map[string]bool), guard: func(netip.AddrPort) *protocol.Problem { return nil }}
	o := protocol.OutageOrder{ID: "d1", Kind: protocol.OutageBlackhole, DurationSeconds: protocol.MinDrillSeconds}
	if _, problem := k.start("10.0.0.1:53", o); problem != nil {
		t.Fatal(problem)
	}
	addr := netip.MustParseAddrPort("10.0.0.1:53")
	if !k.takes(addr) || k.down(addr) || k.takes(netip.MustParseAddrPort("10.0.0.2:53")) {
		t.Error("it takes the wrong one, or not the right one")
	}
	k.current.Load().timer.Reset(time.Millisecond) // as if its time was over
	within(t, time.Second, "over", func() bool { return !k.takes(addr) })
	if s := k.now(); s == nil || s.End != protocol.EndExpired || s.Hit < 1 {
		t.Errorf("%+v", s)
	}
	o.ID = "d2"
	if _, problem := k.start("[2001:db8::1]:53", o); problem != nil {
		t.Fatal(problem)
	}
	k.remove()
	if s := k.now(); s.End != protocol.EndRemoved || s.Address != "[2001:db8::1]:53" {
		t.Errorf("%+v", s)
	}
	o.ID, o.Lease = "d4", true
	first, problem := k.start("10.0.0.1:53", o)
	if problem != nil || first.LeaseEnds == nil || first.LeaseEnds.Sub(first.Started).Round(time.Second) != leaseFor {
		t.Fatalf("%v %+v", problem, first)
	}
	if again, problem := k.start("10.0.0.1:53", o); problem != nil || !again.LeaseEnds.After(*first.LeaseEnds) || !again.EndsAt.Equal(first.EndsAt) {
		t.Errorf("sent again, it keeps the lease and nothing else: %v %+v", problem, again)
	}
	k.current.Load().lease.Reset(time.Millisecond) // as if nobody had sent it again
	within(t, time.Second, "abandoned", func() bool { return !k.takes(addr) })
	if s := k.now(); s.End != protocol.EndAbandoned {
		t.Errorf("%+v", s)
	}
	o.Lease = false
	if _, problem := k.stop("10.0.0.1:53", "d3"); problem != nil {
		t.Fatal(problem)
	}
	o.ID = "d3"
	if _, problem := k.start("10.0.0.1:53", o); problem == nil || problem.Reason() != protocol.ReasonDrillEnded {
		t.Errorf("an order after its end: %v", problem)
	}
}

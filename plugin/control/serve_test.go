package control

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// problem wants the answer to be this problem.
func problem(t *testing.T, resp *http.Response, body []byte, status int, reason protocol.Reason) {
	t.Helper()
	var p protocol.Problem
	if err := json.Unmarshal(body, &p); err != nil {
		t.Errorf("Answer is no problem: %q", body)
		return
	}
	if resp.StatusCode != status || p.Status != status || p.Reason() != reason || p.Detail == "" || resp.Header.Get("Content-Type") != protocol.ProblemMedia {
		t.Errorf("Answer = %s %+v, want %d %s", resp.Status, p, status, reason)
	}
}

// count is a counter's value.
func count(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func TestProblems(t *testing.T) {
	s := newSite(t)
	c := s.client(s.ca.Client("jane"))
	long := `{"id":"` + strings.Repeat("x", maxBody) + `"}`
	tests := []struct {
		name, method, path string
		body               any
		boot               string
		status             int
		reason             protocol.Reason
	}{
		{"no such route", "GET", "/v1/nothing", nil, "", 404, protocol.ReasonNotFound},
		{"outside", "GET", "/", nil, "", 404, protocol.ReasonNotFound},
		{"unclean path", "GET", "/v1//state", nil, "", 404, protocol.ReasonNotFound},
		{"changing nothing there", "PUT", "/v1/nothing", nil, "", 404, protocol.ReasonNotFound},
		{"wrong method", "POST", "/v1/state", nil, BootID(), 405, protocol.ReasonNotAllowed},
		{"no boot id", "DELETE", "/v1/drill/x", nil, "", 400, protocol.ReasonBadRequest},
		{"another boot id", "DELETE", "/v1/drill/x", nil, "0123", 421, protocol.ReasonOtherBoot},
		{"no JSON", "PUT", "/v1/drill", "text", BootID(), 400, protocol.ReasonBadRequest},
		{"an unknown field", "PUT", "/v1/drill", `{"exclud":["10.0.0.0/8"]}`, BootID(), 400, protocol.ReasonBadRequest},
		{"two values", "PUT", "/v1/drill", `{} {}`, BootID(), 400, protocol.ReasonBadRequest},
		{"no body", "PUT", "/v1/drill", nil, BootID(), 400, protocol.ReasonBadRequest},
		{"a long body", "PUT", "/v1/drill", long, BootID(), 413, protocol.ReasonTooLarge},
		{"a panic", "GET", "/v1/panic", nil, "", 500, protocol.ReasonInternal},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			resp, body, err := s.call(c, tc.method, tc.path, tc.body, tc.boot)
			if err != nil {
				t.Fatal(err)
			}
			problem(t, resp, body, tc.status, tc.reason)
			if tc.status == 405 && !strings.Contains(resp.Header.Get("Allow"), "GET") {
				t.Errorf("Allow = %q, want GET", resp.Header.Get("Allow"))
			}
			if tc.method != "GET" && !sawLog("audit: caller=jane", "method="+tc.method, fmt.Sprintf("path=%q", tc.path), fmt.Sprintf("status=%d reason=%s", tc.status, tc.reason)) {
				eventually(t, "an audit line", func() bool {
					return sawLog("audit: caller=jane", "method="+tc.method, fmt.Sprintf("status=%d reason=%s", tc.status, tc.reason))
				})
			}
		})
	}
}

// The series are there before anything happened, so that no first event is lost.
func TestMetricsAreZeroed(t *testing.T) {
	newSite(t)
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, f := range families {
		series[f.GetName()] = len(f.GetMetric())
	}
	for name, least := range map[string]int{
		"coredns_control_requests_total": 3, "coredns_control_refused_total": 4, "coredns_control_handshakes_total": 6,
		"coredns_control_connections": 1, "coredns_control_event_streams": 1,
		"coredns_control_certificate_expiry_timestamp_seconds": 1, "coredns_control_certificate_failures_total": 1,
	} {
		if series[name] < least {
			t.Errorf("%s has %d series, want %d or more", name, series[name], least)
		}
	}
}

// The longest honest order fits.
func TestLongestOrder(t *testing.T) {
	s := newSite(t)
	prefixes := make([]string, protocol.MaxPrefixes)
	for i := range prefixes {
		prefixes[i] = fmt.Sprintf("2001:0db8:ffff:ffff:ffff:ffff:ffff:%04x/128", i)
	}
	o := protocol.Order{ID: "x", Targets: prefixes, Exclude: prefixes, Never: prefixes}
	before := count(t, requests.WithLabelValues("PUT /v1/drill", "200"))
	resp, body, err := s.call(s.client(s.ca.Client("controller")), http.MethodPut, "/v1/drill", o)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("Longest order = %v, %.200s, want 200", err, body)
	}
	eventually(t, "the audit line and the count", func() bool {
		return sawLog("audit: caller=controller", "method=PUT", `path="/v1/drill" status=200`) &&
			count(t, requests.WithLabelValues("PUT /v1/drill", "200")) == before+1
	})
}

func TestState(t *testing.T) {
	s := newSite(t)
	resp, body, err := s.call(s.client(s.ca.Client("controller")), http.MethodGet, protocol.PathState, nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("State = %v, %s", err, body)
	}
	var st protocol.State
	if err := json.Unmarshal(body, &st); err != nil {
		t.Fatal(err)
	}
	if st.BootID != BootID() || len(st.BootID) != 32 || st.Version == "" || !slices.Equal(st.Features, []string{protocol.FeatureDrill}) ||
		st.Ready == nil || !st.Ready.Configured || !st.Ready.Continuous || time.Since(st.Now) > time.Minute || st.StartedAt.After(st.Now) {
		t.Errorf("State = %s", body)
	}
}

// events opens a stream; next is its next state.
func (s *site) events(c *http.Client) (next func() *protocol.State, stop func()) {
	s.t.Helper()
	streaming := *c
	streaming.Timeout = 0
	resp, err := streaming.Get("https://" + s.addr + protocol.PathEvents)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("Stream = %s %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	states := make(chan *protocol.State, 100)
	go func() {
		defer close(states)
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				st := &protocol.State{}
				if err := json.Unmarshal([]byte(data), st); err != nil {
					s.t.Error(err)
				}
				states <- st
			}
		}
	}()
	return func() *protocol.State {
		select {
		case st := <-states:
			return st
		case <-time.After(10 * time.Second):
			s.t.Error("No event within 10 s")
			return nil
		}
	}, func() { resp.Body.Close() }
}

func TestEvents(t *testing.T) {
	s := newSite(t)
	c := s.client(s.ca.Client("jane"))
	next, stop := s.events(c)
	defer stop()
	defer fakeDrill.Store(nil)
	if st := next(); st == nil || st.BootID != BootID() || st.Drill != nil {
		t.Fatalf("First event = %+v, want the state", st)
	}
	fakeDrill.Store(&protocol.DrillState{ID: "d1"})
	Changed()
	if st := next(); st == nil || st.Drill == nil || st.Drill.ID != "d1" {
		t.Fatalf("Second event = %+v, want the drill", st)
	}
	// A flood of changes is a few events, the last of which is right.
	for i := range 10_000 {
		fakeDrill.Store(&protocol.DrillState{ID: fmt.Sprintf("d%d", i)})
		Changed()
	}
	for n := 1; ; n++ {
		st := next()
		if st == nil || n > 50 {
			t.Fatalf("Event %d = %+v, want fewer and the last change among them", n, st)
		}
		if st.Drill.ID == "d9999" {
			break
		}
	}
	// A stream outlives a reload, and ends when its caller is taken off the list.
	if err := s.reload(s.corefile(s.addr, "allow jane", "two")); err != nil {
		t.Fatal(err)
	}
	if st := next(); st == nil {
		t.Fatal("The stream ended with a reload")
	}
	if err := s.reload(s.corefile(s.addr, "allow controller", "two")); err != nil {
		t.Fatal(err)
	}
	if st := next(); st != nil {
		t.Errorf("Event = %+v, want the end of the stream", st)
	}
}

func TestEventStreamsAreBounded(t *testing.T) {
	s := newSite(t)
	c := s.client(s.ca.Client("jane"))
	for range maxStreamsPerCaller {
		_, stop := s.events(c)
		defer stop()
	}
	resp, body, err := s.call(c, http.MethodGet, protocol.PathEvents, nil)
	if err != nil {
		t.Fatal(err)
	}
	problem(t, resp, body, http.StatusServiceUnavailable, protocol.ReasonBusy)
	_, stop := s.events(s.client(s.ca.Client("controller"))) // another still gets one
	stop()
}

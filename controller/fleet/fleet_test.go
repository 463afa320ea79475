package fleet

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"firebreakdns.io/firebreak/controller/fleet/fleettest"
	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// office is a fleet of two stand-ins, and what watches it.
func office(t *testing.T) (*Fleet, []*fleettest.Server) {
	t.Helper()
	ca := fleettest.NewCA(t)
	servers := []*fleettest.Server{fleettest.New(t, "ns1", "127.0.0.1", ca), fleettest.New(t, "ns2", "127.0.0.1", ca)}
	files := ca.Client("controller")
	var b strings.Builder
	fmt.Fprintf(&b, "fleet: office\ntls: {ca: %s, cert: %s, key: %s}\nservers:\n", files.CA, files.Cert, files.Key)
	for _, s := range servers {
		fmt.Fprintf(&b, "  - {name: %s, dns: [\"%s\"], control: %q}\n", s.Name, s.DNS(), s.Control())
	}
	c, err := Parse("fleet.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(c, Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, servers
}

func TestFacts(t *testing.T) {
	f, servers := office(t)
	now := time.Now()
	servers[0].Edit(func(s *fleettest.Shape) {
		s.Skew = 90 * time.Second
		s.State.LastAnswerMs = now.Add(90 * time.Second).UnixMilli()
		s.Seen = []protocol.SeenClient{{Address: "192.0.2.7", Name: "Phone", Last: now.Add(90 * time.Second)}, {Address: "192.0.2.8"}, {Address: "192.0.2.9"}}
		s.PageSize = 2
	})
	servers[1].Edit(func(s *fleettest.Shape) { s.Rcode = 2 })
	f.Refresh(t.Context())
	facts := f.Facts(time.Now())
	ns1, ns2 := facts.Servers[0], facts.Servers[1]
	if !ns1.Heard || ns1.Error != "" || ns1.State.BootID != "boot-ns1" {
		t.Errorf("ns1: %+v", ns1)
	}
	if off := ns1.OffsetMs - 90_000; off < -ns1.OffsetErr || off > ns1.OffsetErr {
		t.Errorf("offset %d ± %d ms", ns1.OffsetMs, ns1.OffsetErr)
	}
	if d := ns1.LastAnswer.Sub(now).Abs(); d > time.Second {
		t.Errorf("last answer is off by %s", d)
	}
	if ns1.LastProbe.IsZero() || ns1.ProbeError != "" || !ns2.LastProbe.IsZero() || !strings.Contains(ns2.ProbeError, "SERVFAIL") {
		t.Errorf("probes: %v %q, %v %q", ns1.LastProbe, ns1.ProbeError, ns2.LastProbe, ns2.ProbeError)
	}
	if failed := f.AddSeen(t.Context(), &facts); len(failed) != 0 {
		t.Error(failed)
	}
	if len(facts.Servers[0].Seen) != 3 || facts.Servers[0].Seen[0].Last.Sub(now).Abs() > time.Second || facts.Names["192.0.2.7"] != "Phone" {
		t.Errorf("seen: %+v, names %v", facts.Servers[0].Seen, facts.Names)
	}
	if got := SeenNames(&facts)["phone"]; len(got) != 1 {
		t.Errorf("names: %v", got)
	}
}

func TestUnheard(t *testing.T) {
	f, servers := office(t)
	f.Refresh(t.Context())
	servers[0].Edit(func(s *fleettest.Shape) { s.Down = true })
	deadline := time.Now().Add(heardFor + 5*time.Second)
	for f.Facts(time.Now()).Servers[0].Heard && time.Now().Before(deadline) {
		f.Refresh(t.Context())
		time.Sleep(100 * time.Millisecond)
	}
	s := f.Facts(time.Now()).Servers[0]
	if s.Heard || !strings.Contains(s.Error, "500") || time.Since(s.Since) > time.Second {
		t.Errorf("%+v", s)
	}
	facts := f.Facts(time.Now())
	if failed := f.AddSeen(t.Context(), &facts); failed["ns1"] == nil || failed["ns2"] != nil {
		t.Errorf("%v", failed)
	}
}

func TestActions(t *testing.T) {
	f, servers := office(t)
	order := &protocol.Order{ID: "d1", Fleet: "office", Mode: "drop", DurationSeconds: 30, Everyone: true}
	do := func(a run.Action) run.Result {
		a.Server, a.Drill = "ns1", "d1"
		if a.BootID == "" {
			a.BootID = "boot-ns1"
		}
		return f.Do(t.Context(), a)
	}
	if r := do(run.Action{Kind: run.ActOrder, Order: order}); r.Reason != protocol.ReasonNotRecording || r.Error == "" || r.At.IsZero() {
		t.Errorf("%+v", r)
	}
	if r := do(run.Action{Kind: run.ActRecord, Recording: &protocol.RecordingOrder{Fleet: "office", Seconds: 60}}); r.Error != "" {
		t.Errorf("%+v", r)
	}
	if r := do(run.Action{Kind: run.ActOrder, Order: order, BootID: "another"}); r.Reason != protocol.ReasonOtherBoot {
		t.Errorf("%+v", r)
	}
	for _, a := range []run.Action{{Kind: run.ActOrder, Order: order}, {Kind: run.ActRenew}, {Kind: run.ActEnd}} {
		if r := do(a); r.Error != "" || r.Drill == nil || r.Drill.ID != "d1" {
			t.Errorf("%s: %+v", a.Kind, r)
		}
	}
	if r := do(run.Action{Kind: run.ActOrder, Order: order}); r.Reason != protocol.ReasonDrillEnded {
		t.Errorf("a late order revived it: %+v", r)
	}
	if rec, err := f.Recording(t.Context(), "ns1", "d1", true); err != nil || rec.Drill != "d1" {
		t.Errorf("%+v %v", rec, err)
	}
	if r := do(run.Action{Kind: run.ActUnrecord}); r.Error != "" {
		t.Errorf("%+v", r)
	}
	if s, err := f.Stats(t.Context(), "ns2"); err != nil || s.BootID != "boot-ns2" {
		t.Errorf("%+v %v", s, err)
	}
	if r := f.Do(t.Context(), run.Action{Kind: run.ActEnd, Server: "ns9"}); r.Error == "" {
		t.Error("an action on nobody succeeded")
	}
	_ = servers
}

func TestStrangersAreNotTrusted(t *testing.T) {
	ca, other := fleettest.NewCA(t), fleettest.NewCA(t)
	s := fleettest.New(t, "ns1", "127.0.0.1", ca)
	for name, files := range map[string]struct{ ca, cert, key string }{
		"we trust another CA":  {other.Client("controller").CA, ca.Client("controller").Cert, ca.Client("controller").Key},
		"it trusts another CA": {ca.Client("controller").CA, other.Client("controller").Cert, other.Client("controller").Key},
		"ours has expired":     {ca.Client("controller").CA, ca.Expired("controller").Cert, ca.Expired("controller").Key},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf("fleet: a\ntls: {ca: %s, cert: %s, key: %s}\nservers:\n  - {name: ns1, dns: [\"%s\"], control: %q}\n  - {name: ns2, dns: [127.0.0.9], control: \"unix:///nowhere\"}\n",
				files.ca, files.cert, files.key, s.DNS(), s.Control())
			c, err := Parse("f", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			f, err := Open(c, Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			f.Refresh(t.Context())
			if got := f.Facts(time.Now()).Servers[0]; got.Heard || got.Error == "" {
				t.Errorf("%+v", got)
			} else {
				t.Log(got.Error)
			}
		})
	}
}

func TestAnswersAreBounded(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		},
		"html": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		},
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		srv := httptest.NewServer(h)
		c := NewClient(srv.URL, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if _, _, _, err := c.State(ctx); err == nil {
			t.Errorf("%s was taken", name)
		}
		cancel()
		c.Close()
		srv.CloseClientConnections()
		srv.Close()
	}
}

func TestSkewedServerIsNotUsed(t *testing.T) {
	// A build without a version works with all: so this is about Skew's effect only.
	f, _ := office(t)
	f.Refresh(t.Context())
	if s := f.Facts(time.Now()).Servers[0]; !s.Has(protocol.FeatureDrill) {
		t.Errorf("%+v", s)
	}
}

func TestLookup(t *testing.T) {
	f, servers := office(t)
	m := run.Monitor{Name: "www.example.org", Type: "A"}
	if err := f.config.Lookup(t.Context(), m, ""); err != nil {
		t.Error(err)
	}
	servers[0].Edit(func(s *fleettest.Shape) { s.Silent = true })
	if err := f.config.Lookup(t.Context(), m, ""); err != nil {
		t.Errorf("with the first silent: %v", err)
	}
	if err := f.config.Lookup(t.Context(), m, servers[0].Name); err == nil {
		t.Error("asked of the silent one alone, it was answered")
	}
	if err := f.config.Lookup(t.Context(), m, servers[1].Name); err != nil {
		t.Errorf("asked of the second alone: %v", err)
	}
	servers[1].Edit(func(s *fleettest.Shape) { s.Rcode = 5 })
	began := time.Now()
	if err := f.config.Lookup(t.Context(), m, ""); err == nil || time.Since(began) > lookupWithin+time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	servers[1].Edit(func(s *fleettest.Shape) { s.Rcode = 3 })
	if err := f.config.Lookup(t.Context(), m, ""); err == nil || !strings.Contains(err.Error(), "no such name") {
		t.Errorf("%v", err)
	}
}

// What is known of a server that did not change outlives a new file.
func TestTakeOver(t *testing.T) {
	f, _ := office(t)
	f.Refresh(t.Context())
	g, err := Open(f.config, Options{Log: f.log, From: f})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if s := g.Facts(time.Now()).Servers[1]; !s.Heard || s.LastProbe.IsZero() {
		t.Errorf("%+v", s)
	}
}

func TestNoLeaks(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("", func(t *testing.T) {
		f, _ := office(t)
		f.Refresh(t.Context())
	})
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// Probes carry the mark that a server told, so that they are no client of its,
// and none where it tells none.
func TestProbesAreMarked(t *testing.T) {
	f, servers := office(t)
	servers[1].Edit(func(s *fleettest.Shape) { s.State.ProbeMark = "" })
	for range 2 { // now both marks are known, and the first look is over
		f.Refresh(t.Context())
	}
	counts := func(i int) (marked, unmarked int) {
		s := servers[i].Shape()
		return s.Marked, s.Unmarked
	}
	m0, u0 := counts(0)
	_, u1 := counts(1)
	for range 3 {
		f.Refresh(t.Context())
	}
	if m, u := counts(0); m < m0+3 || u != u0 {
		t.Errorf("%d marked, %d not", m-m0, u-u0)
	}
	if m, u := counts(1); m != 0 || u < u1+3 {
		t.Errorf("a server that tells no mark got %d with one, %d without", m, u-u1)
	}
	// Another process has another mark: one probe may still carry the old one.
	servers[0].Edit(func(s *fleettest.Shape) {
		s.State.BootID, s.State.ProbeMark = "boot-next", "ff0102030405060708090a0b0c0d0e0f"
	})
	f.Refresh(t.Context())
	_, u0 = counts(0)
	for range 2 {
		f.Refresh(t.Context())
	}
	if _, u := counts(0); u != u0 {
		t.Errorf("%d probes with the old mark", u-u0)
	}
}

package standalone

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/fleet/fleettest"
	"firebreakdns.io/firebreak/controller/pki"
	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// lines is a log that tests read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// count is how many lines have all of these in them.
func (l *lines) count(all ...string) int {
	n := 0
	for _, line := range strings.Split(l.String(), "\n") {
		has := line != ""
		for _, s := range all {
			has = has && strings.Contains(line, s)
		}
		if has {
			n++
		}
	}
	return n
}

// place is a fleet of two stand-ins with a fleet file and a state folder.
type place struct {
	t       *testing.T
	ca      *fleettest.CA
	servers []*fleettest.Server
	file    string
	state   string
	env     map[string]string
	log     *lines
	more    string // of the fleet file
}

func newPlace(t *testing.T) *place {
	t.Helper()
	t.Parallel()
	p := &place{t: t, ca: fleettest.NewCA(t), state: t.TempDir(), log: &lines{}, env: map[string]string{
		EnvReading: "1", EnvGap: "0", EnvTail: "1", EnvRetry: "2", EnvReturn: "1",
	}}
	p.file = filepath.Join(p.ca.Dir, "fleet.yaml")
	for _, name := range []string{"ns1", "ns2"} {
		s := fleettest.New(t, name, "127.0.0.1", p.ca)
		s.Edit(func(s *fleettest.Shape) {
			s.Seen = []protocol.SeenClient{{Address: "192.0.2.7", Name: "phone", First: time.Now().Add(-time.Hour), Last: time.Now(), Queries: 10, Answers: 10, Daily: [7]uint32{5, 5}}}
		})
		p.servers = append(p.servers, s)
	}
	p.write(true)
	return p
}

// write writes the fleet file.
func (p *place) write(enabled bool) {
	p.t.Helper()
	us, api := p.ca.Client("controller"), p.ca.API("api")
	var b strings.Builder
	fmt.Fprintf(&b, "fleet: office\ndrills: {enabled: %v}\ntls: {ca: %s, cert: %s, key: %s}\n", enabled, us.CA, us.Cert, us.Key)
	fmt.Fprintf(&b, "api:\n  listen: 127.0.0.1:0\n  tls: {ca: %s, cert: %s, key: %s}\n  roles: {viewer: [vera], operator: [olga], assistant: [ada]}\n", api.CA, api.Cert, api.Key)
	b.WriteString("groups: {mobile: [192.0.2.0/28]}\ninfrastructure: [192.0.2.254]\nservers:\n")
	for _, s := range p.servers {
		fmt.Fprintf(&b, "  - {name: %s, dns: [\"%s\"], control: %q}\n", s.Name, s.DNS(), s.Control())
	}
	b.WriteString(p.more)
	p.writeText(b.String())
}

func (p *place) writeText(s string) {
	p.t.Helper()
	if err := os.WriteFile(p.file, []byte(s), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// running is a controller at work.
type running struct {
	*Controller
	p    *place
	stop func()
}

func (p *place) open() (*Controller, error) {
	return Open(Options{FleetFile: p.file, State: p.state, Log: slog.New(slog.NewTextHandler(p.log, nil)), Env: func(k string) string { return p.env[k] }})
}

func (p *place) start() *running {
	p.t.Helper()
	c, err := p.open()
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	r := &running{Controller: c, p: p}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Error(err)
		}
	})
	p.t.Cleanup(r.stop)
	c.current().Refresh(context.Background())
	return r
}

// answered is a call's answer.
type answered struct {
	status int
	header http.Header
	body   []byte
}

func (a answered) problem(t *testing.T) (p struct {
	protocol.Problem
	Reason run.Reason  `json:"reason"`
	Checks []run.Check `json:"checks"`
}) {
	t.Helper()
	if a.header.Get("Content-Type") != protocol.ProblemMedia {
		t.Fatalf("%d %s is no problem document: %s", a.status, a.header.Get("Content-Type"), a.body)
	}
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatal(err)
	}
	if p.Status != a.status || p.Detail == "" || !strings.HasPrefix(p.Type, protocol.ProblemType) {
		t.Errorf("a bad problem document: %s", a.body)
	}
	return p
}

// as calls the API in somebody's name.
func (r *running) as(name string) func(method, path, body string) answered {
	t := r.p.t
	t.Helper()
	config, err := pki.ToAPI(r.p.ca.Client(name), nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 20 * time.Second}
	t.Cleanup(client.CloseIdleConnections)
	return func(method, path, body string) answered {
		t.Helper()
		req, err := http.NewRequest(method, r.apis[0].where+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answered{resp.StatusCode, resp.Header, data}
	}
}

func decodeAs[T any](t *testing.T, a answered) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%d: %v: %s", a.status, err, a.body)
	}
	return v
}

// eventually waits for something to be so.
func eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// touched reports what servers were asked to change.
func (p *place) touched() []string {
	var out []string
	for _, s := range p.servers {
		for _, c := range s.Calls() {
			out = append(out, s.Name+" "+c)
		}
	}
	return out
}

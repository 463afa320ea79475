package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/pki"
	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// fleet is a CA with an API that uses it.
type fleet struct {
	t  *testing.T
	ca *pki.CA
}

func newFleet(t *testing.T) fleet {
	t.Helper()
	ca, err := pki.NewCA("test", 0)
	if err != nil {
		t.Fatal(err)
	}
	return fleet{t, ca}
}

func (f fleet) save(p *pki.Pair, err error) string {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	dir := f.t.TempDir()
	if _, err := p.Save(dir, "tls"); err != nil {
		f.t.Fatal(err)
	}
	return dir
}

func (f fleet) person(name string) string { return f.save(f.ca.Client(0, name)) }

// serve is the API's address.
func (f fleet) serve(h http.Handler) string {
	f.t.Helper()
	dir := f.save(f.ca.API(0))
	config, err := pki.APIServer(files(dir), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	s := &http.Server{Handler: h, TLSConfig: config, ReadHeaderTimeout: time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = s.ServeTLS(l, "", "") }()
	f.t.Cleanup(func() { _ = s.Close() })
	return "https://" + l.Addr().String()
}

func answer(status int, v any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	})
}

func ask(t *testing.T, where, certs string) (*view.ServerList, error) {
	t.Helper()
	c, err := New(Options{Controller: where, Certs: certs, Timeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	return c.Servers(context.Background())
}

func TestAsks(t *testing.T) {
	f := newFleet(t)
	where := f.serve(answer(200, view.ServerList{Fleet: "home"}))
	l, err := ask(t, where, f.person("alice"))
	if err != nil || l.Fleet != "home" {
		t.Fatalf("%+v, %v", l, err)
	}
}

// TestErrorsSayWhatToDo: each thing that goes wrong, and the words that help.
func TestErrorsSayWhatToDo(t *testing.T) {
	f, stranger := newFleet(t), newFleet(t)
	alice := f.person("alice")
	expired, err := f.ca.At(time.Now().Add(-48*time.Hour)).Client(time.Hour, "alice")
	plain, err2 := net.Listen("tcp", "127.0.0.1:0")
	silent, err3 := net.Listen("tcp", "127.0.0.1:0")
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	go func() { _ = http.Serve(plain, answer(200, nil)) }()
	defer plain.Close()
	defer silent.Close()
	empty := view.ServerList{}
	for name, x := range map[string]struct {
		where, certs, says string
		temporary          bool
	}{
		"expired":             {f.serve(answer(200, empty)), f.save(expired, nil), "expired", false},
		"of a strange API":    {stranger.serve(answer(200, empty)), alice, "", false},
		"of a strange CA":     {f.serve(answer(200, empty)), mixed(t, f, stranger), "did not take this certificate", false},
		"no role":             {f.serve(answer(403, protocol.NewProblem(403, protocol.ReasonForbidden, "alice has no role here"))), alice, "this one is alice's", false},
		"not a controller":    {f.serve(answer(200, []int{1})), alice, "is --controller right", true},
		"an ordinary error":   {f.serve(answer(404, "not found")), alice, "not as a Firebreak controller would", true},
		"plain HTTP":          {"https://" + plain.Addr().String(), alice, "speaks no TLS", true},
		"nobody there":        {"https://127.0.0.1:1", alice, "nobody listens there", true},
		"no answer":           {"https://" + silent.Addr().String(), alice, "no answer within", true},
		"busy":                {f.serve(answer(503, protocol.NewProblem(503, "Busy", "shutting down: ask again in a moment"))), alice, "ask again in a moment", true},
		"a field is at fault": {f.serve(answer(400, protocol.NewProblem(400, protocol.ReasonBadRequest, "nobody is called so").In("clients[0]"))), alice, "clients[0]: nobody is called so", false},
	} {
		c, err := New(Options{Controller: x.where, Certs: x.certs, Timeout: 2 * time.Second})
		if err == nil {
			_, err = c.Servers(context.Background())
		}
		if err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c != nil && Temporary(err) != x.temporary {
			t.Errorf("%s: temporary %v: %v", name, Temporary(err), err)
		}
	}
	_, err = ask(t, stranger.serve(answer(200, empty)), alice)
	if err == nil || !strings.Contains(err.Error(), "another CA") {
		t.Errorf("an API of another CA: %v", err)
	}
}

// mixed is a certificate of a strange CA with our CA's file: it believes the
// API, and is not believed.
func mixed(t *testing.T, ours, strange fleet) string {
	t.Helper()
	p, err := strange.ca.Client(0, "mallory")
	if err != nil {
		t.Fatal(err)
	}
	q, err := ours.ca.Client(0, "x")
	if err != nil {
		t.Fatal(err)
	}
	p.CA = q.CA
	return ours.save(p, nil)
}

func TestRefused(t *testing.T) {
	f := newFleet(t)
	where := f.serve(answer(409, view.RefusedProblem{
		Problem: *protocol.NewProblem(409, view.ReasonDrillRefused, "no"), Reason: run.TooSoon,
		Checks: []run.Check{{Reason: run.TooSoon, Message: "the last one ended 3 s ago"}},
	}))
	c, err := New(Options{Controller: where, Certs: f.person("alice"), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Start(context.Background(), "ns1", view.DrillRequest{})
	var refused *Refused
	if !errors.As(err, &refused) || refused.Reason != run.TooSoon || Temporary(err) || !strings.Contains(err.Error(), "3 s ago") {
		t.Fatalf("%v", err)
	}
}

// TestNamesAreEscaped: a server's name is a part of the path and no more.
func TestNamesAreEscaped(t *testing.T) {
	f := newFleet(t)
	var path string
	where := f.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		protocol.NewProblem(404, protocol.ReasonNotFound, "no such server").Write(w)
	}))
	c, err := New(Options{Controller: where, Certs: f.person("alice"), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Plan(context.Background(), "../drills?x", view.DrillRequest{})
	var a *Answer
	if !errors.As(err, &a) || a.Status != http.StatusNotFound || path != "/api/v1/servers/..%2Fdrills%3Fx/drill" {
		t.Fatalf("asked %s: %v", path, err)
	}
}

func TestClockOfTheController(t *testing.T) {
	f := newFleet(t)
	ahead := time.Hour
	where := f.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		_, _ = w.Write([]byte("{}"))
	}))
	c, err := New(Options{Controller: where, Certs: f.person("alice"), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Servers(context.Background()); err != nil {
		t.Fatal(err)
	}
	if off := time.Until(c.Now()) - ahead; off.Abs() > 3*time.Second {
		t.Errorf("off by %v", off)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Skipf("a socket's path is too long here: %v", err)
	}
	defer l.Close()
	go func() { _ = http.Serve(l, answer(200, view.ServerList{Fleet: "home"})) }()
	if l, err := ask(t, "unix://"+path, ""); err != nil || l.Fleet != "home" {
		t.Fatalf("%v, %v", l, err)
	}
}

func files(dir string) (f mtls.Files) {
	f.CA, f.Cert, f.Key = filepath.Join(dir, FileCA), filepath.Join(dir, FileCert), filepath.Join(dir, FileKey)
	return f
}

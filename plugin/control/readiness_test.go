package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// unready is a plugin that is ready when its word is; unexplained is one that
// does not say why not.
const unready, unexplained = "unready", "unexplained"

// readyWords are the words that are ready.
var readyWords sync.Map

type unreadyHandler struct {
	next       plugin.Handler
	name, word string
}

func (h *unreadyHandler) Name() string { return h.name }
func (h *unreadyHandler) Ready() bool  { _, ok := readyWords.Load(h.word); return ok }

func (h *unreadyHandler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	return plugin.NextOrFailure(h.name, h.next, ctx, w, r)
}

type explainedHandler struct{ unreadyHandler }

func (h *explainedHandler) NotReady() string { return h.word + " is missing" }

func setupUnready(name string) func(*caddy.Controller) error {
	return func(c *caddy.Controller) error {
		c.Next()
		c.NextArg()
		h := unreadyHandler{name: name, word: c.Val()}
		dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
			h.next = next
			if name == unexplained {
				return &h
			}
			return &explainedHandler{h}
		})
		return nil
	}
}

// ask calls a route of a unix socket and says the status and what is not ready.
func ask(t *testing.T, sock, route string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", sock)
		},
	}}
	resp, err := client.Get("http://control" + route)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var p protocol.Problem
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK && p.Reason() != protocol.ReasonNotReady {
		t.Errorf("%s = %s %+v, want the reason %s", route, resp.Status, p, protocol.ReasonNotReady)
	}
	return resp.StatusCode, p.Detail
}

// Readiness is that of the plugins in the blocks that have the ready plugin, for
// as long as that one asks.
func TestReadiness(t *testing.T) {
	defer readyWords.Clear()
	sock := filepath.Join(t.TempDir(), "s")
	corefile := func(monitor string) string {
		ready := "ready 127.0.0.1:0 {\n monitor " + monitor + "\n }\n"
		return fmt.Sprintf(`a.:0 b.:0 {
 bind 127.0.0.1
 %s
 unready one
 unexplained two
 whoami
}
c.:0 {
 bind 127.0.0.1
 unready nobody-asks
 whoami
}
d.:0 {
 bind 127.0.0.1
 %s
 control unix://%s
 unready three
 whoami
}
`, ready, ready, sock)
	}
	check := func(when, want string) {
		t.Helper()
		status, detail := ask(t, sock, protocol.PathReady)
		if wantStatus := map[bool]int{true: 200, false: 503}[want == ""]; status != wantStatus || detail != want {
			t.Errorf("Readiness %s = %d %q, want %d %q", when, status, detail, wantStatus, want)
		}
		if status, _ := ask(t, sock, protocol.PathLive); status != 200 {
			t.Errorf("Liveness %s = %d, want 200: it has nothing to do with readiness", when, status)
		}
	}

	s := &site{t: t}
	s.start(corefile("continuously"))
	check("at first", "unready: one is missing; unexplained; unready: three is missing")
	readyWords.Store("one", true)
	readyWords.Store("two", true)
	check("of two plugins", "unready: three is missing")
	readyWords.Store("three", true)
	check("of all", "")
	readyWords.Delete("two")
	check("that ended", "unexplained")

	if err := s.reload(corefile("until-ready")); err != nil {
		t.Fatal(err)
	}
	check("after a reload", "unexplained")
	readyWords.Store("two", true)
	check("of all, after a reload", "")
	readyWords.Delete("two")
	check("that is asked until ready", "")

	if err := s.reload(strings.ReplaceAll(corefile("continuously"), "ready 127.0.0.1:0", "reedy")); err == nil {
		t.Fatal("Reload with a broken Corefile = nil, want an error")
	}
	check("after a reload that failed", "")
}

func TestReadinessWithoutReady(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	s := &site{t: t}
	s.start(".:0 {\n bind 127.0.0.1\n control unix://" + sock + "\n whoami\n}\n")
	if status, detail := ask(t, sock, protocol.PathReady); status != 503 || !strings.Contains(detail, "no ready plugin") {
		t.Errorf("Readiness without the ready plugin = %d %q, want that it is missing", status, detail)
	}
	if status, _ := ask(t, sock, protocol.PathLive); status != 200 {
		t.Errorf("Liveness without the ready plugin = %d, want 200", status)
	}
}

// A socket beside the address has the same calls, for whoever may open it; it comes
// and goes with reloads as the address does.
func TestSocketBesideTheAddress(t *testing.T) {
	s := newSite(t)
	sock := filepath.Join(t.TempDir(), "s")
	with := func(path string) string { return s.corefile(s.addr, "allow jane\n socket unix://"+path, "two") }
	jane := s.client(s.ca.Client("jane"))

	if err := s.reload(with(sock)); err != nil {
		t.Fatal(err)
	}
	if status, detail := ask(t, sock, protocol.PathReady); status != 200 {
		t.Errorf("Readiness at the socket = %d %q, want 200", status, detail)
	}
	if status, _ := ask(t, sock, "/v1/word"); status != 200 {
		t.Errorf("A provider's call at the socket = %d, want 200", status)
	}
	if got := s.word(jane); got != "two" {
		t.Errorf("Call at the address = %s, want an answer", got)
	}
	other := sock + "2"
	if err := s.reload(with(other)); err != nil {
		t.Fatal(err)
	}
	if status, _ := ask(t, other, protocol.PathLive); status != 200 {
		t.Errorf("Liveness at the new socket = %d, want 200", status)
	}
	if _, err := net.Dial("unix", sock); err == nil {
		t.Error("The old socket still listens")
	}
	if err := s.reload(strings.Replace(with(other), "whoami", "nonsense", 1)); err == nil {
		t.Fatal("Reload with a broken Corefile = nil, want an error")
	}
	if status, _ := ask(t, other, protocol.PathLive); status != 200 {
		t.Errorf("Liveness after a failed reload = %d, want 200", status)
	}
	if err := s.reload(s.corefile(s.addr, "allow jane", "three")); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("unix", other); err == nil {
		t.Error("A socket that the Corefile no longer has still listens")
	}
	if got := s.word(jane); got != "three" {
		t.Errorf("Call at the address without the socket = %s, want an answer", got)
	}
}

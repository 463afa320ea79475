package control

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coredns/caddy"
)

// Calls go on through reloads, and none is lost.
func TestReloadUnderLoad(t *testing.T) {
	s := newSite(t)
	var wg sync.WaitGroup
	var calls, fresh atomic.Int64
	stop := make(chan struct{})
	for range 4 {
		c := s.client(s.ca.Client("jane"))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if fresh.Add(1)%5 == 0 {
					c.CloseIdleConnections() // a new connection from time to time
				}
				if got := s.word(c); got != "one" && got != "two" {
					t.Errorf("Call during a reload = %s, want an answer", got)
					return
				}
				calls.Add(1)
			}
		})
	}
	for range 5 {
		for _, word := range []string{"two", "one"} {
			if err := s.reload(s.corefile(s.addr, "allow jane", word)); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	wg.Wait()
	if calls.Load() < 20 {
		t.Errorf("%d calls, want more for a test", calls.Load())
	}
	t.Logf("%d calls through 10 reloads", calls.Load())
}

func TestFailedReloadChangesNothing(t *testing.T) {
	s := newSite(t)
	c := s.client(s.ca.Client("jane"))
	taken, err := net.Listen("tcp", "127.0.0.1:0") // without SO_REUSEPORT: nobody else gets it
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	other := freeAddr(t)
	for name, corefile := range map[string]string{
		"syntax":                     "nonsense {",
		"set-up":                     s.corefile("nowhere", "", "two"),
		"no file":                    strings.Replace(s.corefile(s.addr, "", "two"), s.files.Cert, "/none", 1),
		"start, at the same address": s.corefile(s.addr, "allow nobody", "two") + "x:" + port(t, taken.Addr().String()) + " {\n bind 127.0.0.1\n whoami\n}\n",
		"start, at another address":  s.corefile(other, "", "two") + "x:" + port(t, taken.Addr().String()) + " {\n bind 127.0.0.1\n whoami\n}\n",
		"endpoint's address in use":  s.corefile(taken.Addr().String(), "", "two"),
	} {
		if s.reload(corefile) == nil {
			t.Fatalf("Reload with a broken Corefile (%s) = nil, want an error", name)
		}
		if got := s.word(c); got != "one" {
			t.Errorf("Call after a failed reload (%s) = %s, want the old Corefile's answer", name, got)
		}
	}
	if listens(other) {
		t.Error("A failed reload left its endpoint open")
	}
	if err := s.reload(s.corefile(s.addr, "allow jane", "two")); err != nil {
		t.Fatal(err)
	}
	if got := s.word(c); got != "two" {
		t.Errorf("Call after a good reload = %s, want the new Corefile's answer", got)
	}
}

func TestReloadMovesTheEndpoint(t *testing.T) {
	s := newSite(t)
	old := s.addr
	s.addr = freeAddr(t)
	if err := s.reload(s.corefile(s.addr, "allow jane", "two")); err != nil {
		t.Fatal(err)
	}
	if got := s.word(s.client(s.ca.Client("jane"))); got != "two" {
		t.Errorf("Call at the new address = %s, want an answer", got)
	}
	if listens(old) {
		t.Error("The old address still listens")
	}
	// Away, and back again.
	if err := s.reload(".:0 {\n bind 127.0.0.1\n whoami\n}\n"); err != nil {
		t.Fatal(err)
	}
	if listens(s.addr) {
		t.Error("An endpoint that the Corefile no longer has still listens")
	}
	if err := s.reload(s.corefile(s.addr, "allow jane", "three")); err != nil {
		t.Fatal(err)
	}
	if got := s.word(s.client(s.ca.Client("jane"))); got != "three" {
		t.Errorf("Call after it came back = %s, want an answer", got)
	}
}

// The first endpoint of a process comes with a reload that fails: no old
// instance knows of it, so it goes by itself.
func TestFailedReloadThatBringsTheEndpoint(t *testing.T) {
	s := newSite(t)
	s.stop()
	endpoint.mu.Lock()
	endpoint.startWithin = 200 * time.Millisecond
	endpoint.mu.Unlock()
	defer func() { endpoint.mu.Lock(); endpoint.startWithin = startWithin; endpoint.mu.Unlock() }()

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s.start(".:0 {\n bind 127.0.0.1\n whoami\n}\n")
	if s.reload(s.corefile(s.addr, "", "two")+"x:"+port(t, taken.Addr().String())+" {\n bind 127.0.0.1\n whoami\n}\n") == nil {
		t.Fatal("Reload to an address in use = nil, want an error")
	}
	eventually(t, "the endpoint is closed", func() bool { return !listens(s.addr) })
}

func TestUnixSocket(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "control.sock")
	// A dead process left one behind.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: sock, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()

	corefile := ".:0 {\n bind 127.0.0.1\n control unix://" + sock + "\n fake\n whoami\n}\n"
	s := &site{t: t, addr: "unix"}
	s.start(corefile)
	info, err := os.Stat(sock)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != os.ModeSocket {
		t.Fatalf("Socket = %v, %v, want mode 0600", info.Mode(), err)
	}
	transport := &http.Transport{DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", sock)
	}}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	if got := s.word(c); got != "one" {
		t.Errorf("Call over the socket = %s, want an answer", got)
	}
	if err := s.reload(corefile); err != nil {
		t.Fatal(err)
	}
	if got := s.word(c); got != "one" {
		t.Errorf("Call after a reload = %s, want an answer", got)
	}
	// Another process may not take it over while this one answers.
	if _, err := listenUnix(sock); err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Errorf("Second socket = %v, want that another process answers", err)
	}
	s.stop()
	if _, err := os.Stat(sock); !os.IsNotExist(err) {
		t.Errorf("Socket after the end = %v, want none", err)
	}
}

func TestUnixSocketReplacesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := caddy.Start(input(".:0 {\n bind 127.0.0.1\n control unix://" + path + "\n whoami\n}\n")); err == nil {
		t.Error("Start over a file = nil, want an error")
	}
}

func TestCheckUID(t *testing.T) {
	if err := checkUID(uint32(os.Geteuid())); err != nil {
		t.Errorf("Own user = %v, want nil", err)
	}
	if err := checkUID(0); err != nil {
		t.Errorf("Root = %v, want nil", err)
	}
	if checkUID(uint32(os.Geteuid())+1) == nil {
		t.Error("Another user = nil, want an error")
	}
}

func port(t *testing.T, addr string) string {
	t.Helper()
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

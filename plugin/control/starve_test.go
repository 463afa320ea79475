package control

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// quick wants a good caller to be answered at once, on a new connection.
func (s *site) quick(what string) {
	s.t.Helper()
	for range 5 {
		start := time.Now()
		if got := s.word(s.client(s.ca.Client("controller"))); got != "one" {
			s.t.Fatalf("Good caller beside %s = %s, want an answer", what, got)
		}
		if took := time.Since(start); took > 2*time.Second {
			s.t.Errorf("Good caller beside %s was answered after %s, want at once", what, took)
		}
	}
}

// Connections that never say a word, from the good caller's own address.
func TestSilentConnectionsStarveNobody(t *testing.T) {
	s := newSite(t)
	for range 4 * maxHandshakes {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	s.quick("silent connections")
}

// A flood that goes on: each connection that is thrown out is made again.
func TestHandshakeFloodStarvesNobody(t *testing.T) {
	s := newSite(t)
	stop := make(chan struct{})
	defer close(stop)
	var made atomic.Int64
	for range 2 * maxHandshakes {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := net.Dial("tcp", s.addr)
				if err != nil {
					return
				}
				made.Add(1)
				_ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
				_, _ = c.Read(make([]byte, 1)) // until it is thrown out
				c.Close()
				time.Sleep(10 * time.Millisecond)
			}
		}()
	}
	s.quick("a flood of handshakes")
	t.Logf("%d connections in the flood", made.Load())
}

// A caller with a certificate, but slow: headers byte by byte.
func TestSlowHeadersStarveNobody(t *testing.T) {
	s := newSite(t)
	for i := range maxConnectionsPerCaller + 8 {
		c, err := tls.Dial("tcp", s.addr, s.tls(s.ca.Client("jane")))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /v1/state HTTP/1.1\r\nX-%d: ", i)
	}
	s.quick("slow headers")
}

// A caller whose bodies never end keeps the long ones to itself for a while, and
// nothing else.
func TestEndlessBodiesStarveNobody(t *testing.T) {
	s := newSite(t)
	jane := s.client(s.ca.Client("jane"))
	pr, pw := io.Pipe()
	defer pw.Close()
	ended := make(chan string, 1)
	go func() {
		resp, _, err := s.call(jane, http.MethodPut, "/v1/drill", pr)
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- resp.Status
	}()
	if _, err := pw.Write([]byte(`{"id":"`)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "her second long body is refused", func() bool {
		resp, body, err := s.call(jane, http.MethodPut, "/v1/drill", io.MultiReader(io.LimitReader(zeros{}, longBody+1)))
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			return false
		}
		problem(t, resp, body, http.StatusServiceUnavailable, protocol.ReasonBusy)
		return true
	})
	s.quick("an endless body")
	controller := s.client(s.ca.Client("controller"))
	if resp, _, err := s.call(controller, http.MethodDelete, "/v1/drill/x", nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("Ending a drill beside an endless body = %v, want 200", err)
	}
	if resp, _, err := s.call(controller, http.MethodPut, "/v1/drill", protocol.Order{ID: "x"}); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("Order beside an endless body = %v, want 200", err)
	}
	// It ends by itself: the time for reading is over.
	start := time.Now()
	select {
	case got := <-ended:
		t.Logf("The endless body ended with %q after %s", got, time.Since(start).Round(time.Second))
	case <-time.After(readWithin + 5*time.Second):
		t.Error("An endless body did not end")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestGateThrowsOutTheCrowd(t *testing.T) {
	g := newGate(nil)
	add := func(host string) *stranger {
		a, b := net.Pipe()
		t.Cleanup(func() { a.Close(); b.Close() })
		return g.admit(from{a, host})
	}
	quiet := add("192.0.2.1")
	var crowd []*stranger
	for range maxHandshakes + 10 {
		crowd = append(crowd, add("192.0.2.2"))
	}
	if quiet.evicted {
		t.Error("The oldest was thrown out although another address has the crowd")
	}
	for i, s := range crowd {
		if want := i < 11; s.evicted != want {
			t.Errorf("Stranger %d of the crowd thrown out = %v, want %v", i, s.evicted, want)
		}
	}
}

type from struct {
	net.Conn
	host string
}

func (f from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.host), Port: 1} }

func TestThrottle(t *testing.T) {
	th := &throttle{burst: 3, every: time.Second}
	now := time.Now()
	passed := 0
	for range 10 {
		if ok, _ := th.allow(now); ok {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("%d passed at once, want the burst of 3", passed)
	}
	if ok, missed := th.allow(now.Add(time.Second)); !ok || missed != 7 {
		t.Errorf("A second later = %v with %d missed, want one with 7", ok, missed)
	}
}

func TestSlots(t *testing.T) {
	s := newSlots(3, 2)
	if !s.take("a") || !s.take("a") || s.take("a") {
		t.Error("One caller could take other than 2 slots")
	}
	if !s.take("b") || s.take("c") {
		t.Error("All callers could take other than 3 slots")
	}
	s.give("a")
	if !s.take("c") {
		t.Error("A slot that was given back could not be taken")
	}
}

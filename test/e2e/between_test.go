package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/pki"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// between is what stands between the controller and one server's control endpoint,
// with the server's own certificate. Both ends are real; what goes wrong on the
// way is a fault, one at a time.
type between struct {
	t      *testing.T
	addr   string
	to     string // the control endpoint itself
	config *tls.Config
	client *http.Client

	mu     sync.Mutex
	fault  fault
	server *http.Server
	struck atomic.Int64 // calls that met the fault
}

// fault is what becomes of a call; it answers, or does not.
type fault func(b *between, w http.ResponseWriter, r *http.Request)

// intercept puts one before a server of the lab; controllers that are started later
// meet it.
func (l *lab) intercept(name string) *between {
	l.t.Helper()
	source, err := mtls.Open(l.ca.Server(name), mtls.KindServer, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	calling, err := pki.ToServer(l.ca.Client("controller"), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	b := &between{
		t: l.t, addr: net.JoinHostPort(l.ip(int(name[2]-'0')), "9444"), to: l.control(name), fault: pass,
		config: mtls.ServerConfig(source.Keys), client: &http.Client{Transport: &http.Transport{TLSClientConfig: calling}},
	}
	b.mend()
	l.before[name] = b
	l.t.Cleanup(func() { b.cut(); b.client.CloseIdleConnections() })
	return b
}

func (b *between) url() string { return "https://" + b.addr }

// cut makes the endpoint one that nobody listens at, and drops its connections.
func (b *between) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server != nil {
		_ = b.server.Close() // what it was in the middle of is to be lost
		b.server = nil
	}
}

// mend undoes cut.
func (b *between) mend() {
	b.t.Helper()
	listener, err := tls.Listen("tcp", b.addr, b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)} // it is cut on purpose
	go func(s *http.Server) { _ = s.Serve(listener) }(b.server)                                               // ends with cut
}

func (b *between) set(f fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = f
}

func (b *between) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	f := b.fault
	b.mu.Unlock()
	f(b, w, r)
}

// forward makes the call, whether or not its caller waits for the answer.
func (b *between) forward(r *http.Request) (*http.Response, []byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, b.to+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header = r.Header.Clone()
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp, answer, err
}

func (b *between) relay(w http.ResponseWriter, r *http.Request, change func([]byte) []byte) {
	resp, answer, err := b.forward(r)
	if err != nil { // as if the server itself were gone
		panic(http.ErrAbortHandler)
	}
	if change != nil {
		answer = change(answer)
	}
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer) // the caller may be gone
}

// pass is no fault.
func pass(b *between, w http.ResponseWriter, r *http.Request) { b.relay(w, r, nil) }

// slow calls take so much longer to arrive, and orders to record longer still; none
// is lost.
func slow(by, record time.Duration) fault {
	return func(b *between, w http.ResponseWriter, r *http.Request) {
		b.struck.Add(1)
		wait := by
		if r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, protocol.PathRecordings) {
			wait = record
		}
		time.Sleep(wait)
		b.relay(w, r, nil)
	}
}

// only has the fault meet calls of a method to paths that begin so.
func only(method, path string, f fault) fault {
	return func(b *between, w http.ResponseWriter, r *http.Request) {
		if r.Method == method && strings.HasPrefix(r.URL.Path, path) {
			b.struck.Add(1)
			f(b, w, r)
			return
		}
		b.relay(w, r, nil)
	}
}

// endless answers begin and never end.
func endless(_ *between, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, " "); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		time.Sleep(50 * time.Millisecond)
	}
}

// cutOff loses the answer to a call that was made, with its connection.
func cutOff(b *between, _ http.ResponseWriter, r *http.Request) {
	_, _, _ = b.forward(r) // whatever came of it, nobody is told
	panic(http.ErrAbortHandler)
}

// silent loses the answer to a call that was made: the caller waits in vain.
func silent(b *between, _ http.ResponseWriter, r *http.Request) {
	_, _, _ = b.forward(r)
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// ofVersion makes the server say that it is of another version.
func ofVersion(version string) fault {
	return func(b *between, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != protocol.PathState {
			b.relay(w, r, nil)
			return
		}
		b.relay(w, r, func(answer []byte) []byte {
			var state map[string]any
			if err := json.Unmarshal(answer, &state); err != nil {
				return answer
			}
			state["version"] = version
			changed, err := json.Marshal(state)
			if err != nil {
				return answer
			}
			return changed
		})
	}
}

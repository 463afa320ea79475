package control

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls/mtlstest"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/whoami"
	"go.uber.org/goleak"
)

// fake is a plugin that hangs routes on the endpoint, as clients and drill do.
const fake = "fake"

// fakeDrill is what it says of itself in the state.
var fakeDrill atomic.Pointer[protocol.DrillState]

// logged is all that was logged.
var logged syncBuffer

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestMain(m *testing.M) {
	caddy.Quiet, dnsserver.Quiet = true, true
	stdlog.SetOutput(&logged)
	caddy.RegisterPlugin(fake, caddy.Plugin{ServerType: "dns", Action: func(c *caddy.Controller) error {
		c.Next()
		word := "one"
		if c.NextArg() {
			word = c.Val()
		}
		Provide(c, Provider{
			Feature: protocol.FeatureDrill,
			Routes: func(mux *http.ServeMux) {
				mux.HandleFunc("GET /v1/word", func(w http.ResponseWriter, r *http.Request) {
					WriteJSON(w, http.StatusOK, map[string]string{"word": word, "caller": Caller(r)})
				})
				mux.HandleFunc("PUT /v1/drill", func(w http.ResponseWriter, r *http.Request) {
					var o protocol.Order
					if ReadJSON(w, r, &o) {
						WriteJSON(w, http.StatusOK, o)
					}
				})
				mux.HandleFunc("DELETE /v1/drill/{id}", func(w http.ResponseWriter, r *http.Request) {
					WriteJSON(w, http.StatusOK, r.PathValue("id"))
				})
				mux.HandleFunc("GET /v1/panic", func(http.ResponseWriter, *http.Request) { panic("on purpose") })
			},
			State: func(s *protocol.State) { s.Drill = fakeDrill.Load() },
		})
		return nil
	}})
	for _, name := range []string{unready, unexplained} {
		caddy.RegisterPlugin(name, caddy.Plugin{ServerType: "dns", Action: setupUnready(name)})
	}
	if err := dnsserver.SetDirectives([]string{"bind", "ready", pluginName, fake, unready, unexplained, "whoami"}); err != nil {
		panic(err)
	}
	code := m.Run()
	if code == 0 {
		// The ready plugin leaves its listener behind where a reload fails.
		if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/coredns/coredns/plugin/ready.(*ready).onStartup.func2")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// site is a server with an endpoint, and the CA behind it.
type site struct {
	t     *testing.T
	ca    *mtlstest.CA
	dir   string
	addr  string // of the endpoint
	files mtls.Files
	inst  *caddy.Instance
}

// newSite starts a server whose endpoint lets the controller and jane in.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, ca: mtlstest.NewCA(t), dir: t.TempDir(), addr: freeAddr(t)}
	s.files = s.ca.Server().Save(t, s.dir, "server")
	s.start(s.corefile(s.addr, "allow controller jane", "one"))
	return s
}

func (s *site) start(corefile string) {
	s.t.Helper()
	inst, err := caddy.Start(input(corefile))
	if err != nil {
		s.t.Fatal(err)
	}
	s.inst = inst
	time.Sleep(20 * time.Millisecond)
	s.t.Cleanup(s.stop)
}

func (s *site) stop() {
	if s.inst == nil {
		return
	}
	s.inst.ShutdownCallbacks()
	if err := s.inst.Stop(); err != nil {
		s.t.Error(err)
	}
	s.inst.Wait()
	s.inst = nil
}

// reload replaces the Corefile.
func (s *site) reload(corefile string) error {
	inst, err := s.inst.Restart(input(corefile))
	s.inst = inst
	// CoreDNS loses a listener that is stopped before it has begun to serve.
	time.Sleep(20 * time.Millisecond)
	return err
}

func (s *site) corefile(addr, allow, word string) string {
	return fmt.Sprintf(".:0 {\n bind 127.0.0.1\n ready 127.0.0.1:0 {\n monitor continuously\n }\n control %s {\n tls %s %s %s\n %s\n }\n fake %s\n whoami\n}\n",
		addr, s.files.Cert, s.files.Key, s.files.CA, allow, word)
}

// client calls the endpoint with a certificate. Each has its own connections.
func (s *site) client(pair *mtlstest.Pair) *http.Client {
	return client(s.t, s.tls(pair))
}

func (s *site) tls(pair *mtlstest.Pair) *tls.Config {
	s.t.Helper()
	config := &tls.Config{RootCAs: s.ca.Pool(), InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	if pair != nil {
		cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			s.t.Fatal(err)
		}
		// Whatever CAs the server names: a foreign certificate is to be shown too.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	return config
}

func client(t *testing.T, config *tls.Config) *http.Client {
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// call makes a call, with the right boot id if none is given.
func (s *site) call(c *http.Client, method, path string, body any, boot ...string) (*http.Response, []byte, error) {
	s.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case io.Reader:
		r = b
	case string:
		r = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			s.t.Fatal(err)
		}
		r = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, "https://"+s.addr+path, r)
	if err != nil {
		s.t.Fatal(err)
	}
	id := BootID()
	if len(boot) > 0 {
		id = boot[0]
	}
	if id != "" {
		req.Header.Set(protocol.BootHeader, id)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, text, err
}

// word is what the fake plugin of the Corefile that answers says.
func (s *site) word(c *http.Client) string {
	s.t.Helper()
	resp, body, err := s.call(c, http.MethodGet, "/v1/word", nil)
	if err != nil {
		return err.Error()
	}
	var v struct{ Word string }
	if err := json.Unmarshal(body, &v); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Sprintf("%s %s", resp.Status, body)
	}
	return v.Word
}

func input(corefile string) caddy.Input {
	return caddy.CaddyfileInput{Filepath: "Corefile", Contents: []byte(corefile), ServerTypeName: "dns"}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// eventually waits until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Errorf("Not within 10 s: %s", what)
}

// sawLog says whether one logged line has all of the words.
func sawLog(words ...string) bool {
next:
	for line := range strings.Lines(logged.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		return true
	}
	return false
}

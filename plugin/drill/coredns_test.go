package drill_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/drill"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/pb"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/metrics"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/tls"
	_ "github.com/coredns/coredns/plugin/whoami"

	"github.com/miekg/dns"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) {
	caddy.Quiet, dnsserver.Quiet = true, true
	clog.Discard()
	// broken fails before those start that would not clean up after a failed start.
	if err := dnsserver.SetDirectives([]string{"tls", "bind", "clients", "drill", "broken", "ready", "prometheus", "errors", "whoami"}); err != nil {
		panic(err)
	}
	caddy.RegisterPlugin("broken", caddy.Plugin{ServerType: "dns", Action: func(c *caddy.Controller) error {
		for c.Next() {
			c.OnStartup(func() error { return errors.New("broken on purpose") })
		}
		return nil
	}})
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(notOurs...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// notOurs are goroutines that no test of ours can end.
var notOurs = []goleak.Option{
	// The stock plugin starts once more after a failed reload and forgets one.
	goleak.IgnoreAnyFunction("github.com/coredns/coredns/plugin/ready.(*ready).onStartup.func2"),
	// Both begin with the process and never end.
	goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
	goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
}

const (
	serverIP = "127.0.0.1"
	victim   = "127.0.0.2" // drilled
	bystand  = "127.0.0.3" // not
	patience = 250 * time.Millisecond
)

// server is a CoreDNS with a listener of every kind.
type server struct {
	inst  *caddy.Instance
	ports map[string]string // scheme -> address
	ready string
	dir   string
	roots *x509.CertPool
}

var schemes = []string{"dns", "tls", "https", "https3", "quic", "grpc"}

// corefile has plugins in every server block.
func (s *server) corefile(plugins string) string {
	var b strings.Builder
	for _, scheme := range schemes {
		_, port, _ := net.SplitHostPort(s.ports[scheme])
		cert := ""
		if scheme != "dns" {
			cert = fmt.Sprintf("tls %s/cert.pem %s/key.pem", s.dir, s.dir)
		}
		ready := ""
		if scheme == "dns" {
			ready = fmt.Sprintf("ready %s {\nmonitor continuously\n}", s.ready)
		}
		fmt.Fprintf(&b, "%s://.:%s {\nbind %s\n%s\n%s\n%s\nprometheus 127.0.0.1:0\nerrors\nwhoami\n}\n", scheme, port, serverIP, cert, ready, plugins)
	}
	return b.String()
}

const drilling = "clients\ndrill"

func start(t *testing.T, plugins string) *server {
	t.Helper()
	s := &server{ports: make(map[string]string), dir: t.TempDir()}
	s.roots = makeCert(t, s.dir)
	var err error
	for range 5 { // a port that was free may be taken by now
		for _, scheme := range schemes {
			s.ports[scheme] = freePort(t)
		}
		s.ready = freePort(t)
		if s.inst, err = caddy.Start(input(s.corefile(plugins))); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	s.serving(t)
	t.Cleanup(func() {
		s.inst.ShutdownCallbacks()
		if err := s.inst.Stop(); err != nil {
			t.Error(err)
		}
		s.inst.Wait()
	})
	return s
}

// serving waits until all listeners serve: CoreDNS cannot stop one that does not
// yet. It asks in a class that no plugin is asked.
func (s *server) serving(t *testing.T) {
	t.Helper()
	for _, transport := range transports {
		a := s.newAsker(t, transport, bystand)
		m := question()
		m.Question[0].Qclass = dns.ClassCHAOS
		if _, err := ask(a, m, 10*time.Second); err != nil {
			t.Fatalf("%s does not serve: %v", transport, err)
		}
		a.close()
	}
}

func input(corefile string) caddy.Input {
	return caddy.CaddyfileInput{Filepath: "Corefile", Contents: []byte(corefile), ServerTypeName: "dns"}
}

func (s *server) reload(plugins string) error {
	inst, err := s.inst.Restart(input(s.corefile(plugins)))
	s.inst = inst
	return err
}

func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", serverIP+":0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		p, err := net.ListenPacket("udp", addr)
		l.Close()
		if err == nil {
			p.Close()
			return addr
		}
	}
	t.Fatal("no port is free for both UDP and TCP")
	return ""
}

func makeCert(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "test"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.ParseIP(serverIP)},
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, b := range map[string][]byte{
		"cert.pem": certPEM,
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	return roots
}

// errClosed is what a client sees of a connection or stream that is closed
// without an answer; errTimeout that nothing came in its patience.
var (
	errClosed  = errors.New("closed without an answer")
	errTimeout = errors.New("no answer in time")
)

// asker is a client of one transport, at one address, with one connection where
// there are any.
type asker interface {
	ask(ctx context.Context, m *dns.Msg) (*dns.Msg, error)
	close()
}

func (s *server) dial(t *testing.T, scheme, from string) asker {
	t.Helper()
	a := s.newAsker(t, scheme, from)
	t.Cleanup(a.close)
	return a
}

func (s *server) newAsker(t *testing.T, scheme, from string) asker {
	t.Helper()
	conf := &tls.Config{RootCAs: s.roots, ServerName: serverIP}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	udp := func(addr string) (*net.UDPConn, *net.UDPAddr) {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(from)})
		must(err)
		to, err := net.ResolveUDPAddr("udp", addr)
		must(err)
		return c, to
	}
	switch scheme {
	case "udp":
		c, err := (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}).Dial("udp", s.ports["dns"])
		must(err)
		return &plainAsker{&dns.Conn{Conn: c}}
	case "tcp":
		c, err := dialer.Dial("tcp", s.ports["dns"])
		must(err)
		return &plainAsker{&dns.Conn{Conn: c}}
	case "tls":
		c, err := tls.DialWithDialer(dialer, "tcp", s.ports["tls"], conf)
		must(err)
		return &plainAsker{&dns.Conn{Conn: c}}
	case "quic":
		c, to := udp(s.ports["quic"])
		tr := &quic.Transport{Conn: c}
		conf.NextProtos = []string{"doq"}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		conn, err := tr.Dial(ctx, to, conf, nil)
		must(err)
		return &quicAsker{conn, func() { _ = tr.Close(); _ = c.Close() }}
	case "https", "https over HTTP/1.1":
		tr := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: scheme == "https", DialContext: dialer.DialContext}
		return &httpAsker{"https://" + s.ports["https"] + "/dns-query", tr, tr.CloseIdleConnections}
	case "https3":
		c, to := udp(s.ports["https3"])
		qt := &quic.Transport{Conn: c}
		tr := &http3.Transport{TLSClientConfig: conf, Dial: func(ctx context.Context, _ string, tlsConf *tls.Config, qc *quic.Config) (*quic.Conn, error) {
			return qt.DialEarly(ctx, to, tlsConf, qc)
		}}
		return &httpAsker{"https://" + s.ports["https3"] + "/dns-query", tr, func() { _ = tr.Close(); _ = qt.Close(); _ = c.Close() }}
	case "grpc":
		conf.NextProtos = []string{"h2"}
		conn, err := grpc.NewClient("passthrough:///"+s.ports["grpc"], grpc.WithTransportCredentials(credentials.NewTLS(conf)),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) }))
		must(err)
		return &grpcAsker{conn}
	}
	t.Fatalf("unknown transport %q", scheme)
	return nil
}

var transports = []string{"udp", "tcp", "tls", "https", "https3", "quic", "grpc"}

func outcome(ctx context.Context, err error) error {
	var timeout net.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil, status.Code(err) == codes.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return errTimeout
	case errors.Is(err, io.EOF), strings.Contains(err.Error(), "connection reset"), strings.Contains(err.Error(), "broken pipe"), strings.Contains(err.Error(), "use of closed"):
		return errClosed
	}
	return err
}

type plainAsker struct{ c *dns.Conn }

func (a *plainAsker) ask(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
	deadline, _ := ctx.Deadline()
	_ = a.c.SetDeadline(deadline)
	if err := a.c.WriteMsg(m); err != nil {
		return nil, outcome(ctx, err)
	}
	r, err := a.c.ReadMsg()
	return r, outcome(ctx, err)
}

func (a *plainAsker) close() { _ = a.c.Close() }

type quicAsker struct {
	conn *quic.Conn
	end  func()
}

func (a *quicAsker) ask(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
	s, err := a.conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, outcome(ctx, err)
	}
	m = m.Copy()
	m.Id = 0
	wire, err := m.Pack()
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	_ = s.SetDeadline(deadline)
	if _, err := s.Write(dnsserver.AddPrefix(wire)); err != nil {
		return nil, outcome(ctx, err)
	}
	_ = s.Close()
	b, err := io.ReadAll(s)
	if err != nil {
		s.CancelRead(0)
		return nil, outcome(ctx, err)
	}
	if len(b) == 0 {
		return nil, errClosed
	}
	if len(b) < 2 || int(binary.BigEndian.Uint16(b)) != len(b)-2 {
		return nil, fmt.Errorf("%d bytes are no DoQ message", len(b))
	}
	r := new(dns.Msg)
	return r, r.Unpack(b[2:])
}

func (a *quicAsker) close() { _ = a.conn.CloseWithError(0, ""); a.end() }

type httpAsker struct {
	url string
	tr  http.RoundTripper
	end func()
}

func (a *httpAsker) ask(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
	wire, err := m.Pack()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(wire))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/dns-message")
	res, err := a.tr.RoundTrip(req)
	if err != nil {
		return nil, outcome(ctx, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, outcome(ctx, err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP %s", res.Status)
	}
	r := new(dns.Msg)
	return r, r.Unpack(b)
}

func (a *httpAsker) close() { a.end() }

type grpcAsker struct{ conn *grpc.ClientConn }

func (a *grpcAsker) ask(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
	wire, err := m.Pack()
	if err != nil {
		return nil, err
	}
	p, err := pb.NewDnsServiceClient(a.conn).Query(ctx, &pb.DnsPacket{Msg: wire})
	if err != nil {
		return nil, outcome(ctx, err)
	}
	r := new(dns.Msg)
	if err := r.Unpack(p.GetMsg()); err != nil {
		return nil, err
	}
	if !r.Response {
		return nil, errors.New("the answer is an echo of the query")
	}
	return r, nil
}

func (a *grpcAsker) close() { _ = a.conn.Close() }

// ask asks once, for the given time.
func ask(a asker, m *dns.Msg, patience time.Duration) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return a.ask(ctx, m)
}

func question() *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion("example.org.", dns.TypeA)
	return m
}

const token = "00112233445566778899aabbccddeeff"

var drills atomic.Uint64

// fresh is an id that no drill of this process had.
func fresh(name string) string { return fmt.Sprintf("%s-%d", name, drills.Add(1)) }

func order(id string, mode protocol.DrillMode, targets ...string) protocol.Order {
	return protocol.Order{
		ID: id, Fleet: "test", Mode: mode, DurationSeconds: 60, Readiness: protocol.ReadinessFail,
		Targets: targets, ProbeToken: token, By: "a test", Reason: "to see",
	}
}

// startDrill records for the drill and starts it; it ends with the test.
func startDrill(t *testing.T, o protocol.Order) {
	t.Helper()
	if _, problem := clients.Current().Record(o.ID, protocol.RecordingOrder{Fleet: o.Fleet, Seconds: 120, Targets: o.Targets}, clients.Now()); problem != nil {
		t.Fatal(problem)
	}
	if _, problem := drill.Current().Start(o); problem != nil {
		t.Fatal(problem)
	}
	t.Cleanup(func() {
		_, _ = drill.Current().Delete(o.ID)
		if p := clients.Current(); p != nil {
			p.Forget(o.ID)
		}
	})
}

func recorded(t *testing.T, id, addr string) protocol.RecordedClient {
	t.Helper()
	rec, ok := clients.Current().ReadRecording(id, true, 0, clients.Now())
	if !ok {
		t.Fatalf("nothing is recorded for %s", id)
	}
	for _, c := range rec.Clients {
		if c.Address == netip.MustParseAddr(addr).String() {
			return c
		}
	}
	return protocol.RecordedClient{}
}

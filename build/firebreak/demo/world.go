package demo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"firebreakdns.io/firebreak/build/firebreak/client"
	"firebreakdns.io/firebreak/controller/pki"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// world is where the demo takes place: a folder and a network of its own.
type world struct {
	dir      string
	network  netip.Prefix // a /24 of loopback
	upstream netip.AddrPort
	servers  []server
	api      netip.AddrPort
	caller   string // folder with the certificate of whoever runs the demo
}

// server is one of the three.
type server struct {
	name    string
	dns     netip.AddrPort
	control netip.AddrPort
	ready   netip.AddrPort
}

// Hosts of the network, by their last byte.
const (
	hostServers  = 1 // and the next two
	hostUpstream = 9
	hostClients  = 21 // and on
)

const (
	serverCount = 3
	callerName  = "you"
	zone        = "demo.example"
)

// newWorld takes a network and makes its folder; whoever has it removes dir.
func newWorld() (*world, error) {
	dir, err := os.MkdirTemp("", "firebreak-demo-")
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir, caller: filepath.Join(dir, "certs", callerName)}
	for range 20 { // another program may have a port of the first network tried
		if err = w.settle(); err == nil {
			return w, nil
		}
	}
	_ = os.RemoveAll(dir)
	return nil, fmt.Errorf("no free ports on loopback: %w", err)
}

// settle picks a random network and free ports in it. 127.0.0.0/16 is left
// alone: that is where other programs are.
func (w *world) settle() error {
	w.network = netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(254)), byte(rand.IntN(256)), 0}), 24)
	var err error
	free := func(host byte) netip.AddrPort {
		a, e := freePort(w.host(host))
		err = errors.Join(err, e)
		return a
	}
	w.servers = nil
	for i := range serverCount {
		host := byte(hostServers + i)
		w.servers = append(w.servers, server{name: fmt.Sprintf("ns%d", i+1), dns: free(host), control: free(host), ready: free(host)})
	}
	w.upstream = free(hostUpstream)
	w.api = free(hostUpstream + 1)
	return err
}

func (w *world) host(last byte) netip.Addr {
	b := w.network.Addr().As4()
	b[3] = last
	return netip.AddrFrom4(b)
}

// freePort is one that is free for UDP and TCP. It is not held: in a network
// that nobody else uses nobody else takes it.
func freePort(a netip.Addr) (netip.AddrPort, error) {
	u, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer u.Close()
	got := u.LocalAddr().(*net.UDPAddr).AddrPort()
	t, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(got))
	if err != nil {
		return netip.AddrPort{}, err
	}
	return got, t.Close()
}

// file writes a file into the folder and returns its path.
func (w *world) file(name, content string) (string, error) {
	path := filepath.Join(w.dir, name)
	return path, os.WriteFile(path, []byte(content), 0o600)
}

// certificates of everybody: they last a day, and nobody else gets one.
func (w *world) certificates() error {
	const day = 24 * time.Hour
	ca, err := pki.NewCA("firebreak demo", day)
	if err != nil {
		return err
	}
	last := day - time.Minute // the CA's began a moment ago
	save := func(folder string, p *pki.Pair, err error) error {
		if err != nil {
			return err
		}
		_, err = p.Save(filepath.Join(w.dir, "certs", folder), strings.TrimSuffix(client.FileCert, ".crt"))
		return err
	}
	for _, s := range w.servers {
		p, err := ca.Server(last)
		if err := save(s.name, p, err); err != nil {
			return err
		}
	}
	p, err := ca.Client(last, "controller")
	if err := save("controller", p, err); err != nil {
		return err
	}
	p, err = ca.API(last)
	if err := save("api", p, err); err != nil {
		return err
	}
	p, err = ca.Client(last, callerName, "operator")
	return save(callerName, p, err)
}

func (w *world) certs(folder string) mtls.Files {
	dir := filepath.Join(w.dir, "certs", folder)
	return mtls.Files{CA: filepath.Join(dir, client.FileCA), Cert: filepath.Join(dir, client.FileCert), Key: filepath.Join(dir, client.FileKey)}
}

// serverCorefile is what a drilled server needs, and a way to answer.
func (w *world) serverCorefile(s server) string {
	return w.corefile(s, fmt.Sprintf("cache 30\n    forward . %s", w.upstream))
}

// cacheCorefile is that of a node cache.
func (w *world) cacheCorefile(s server, upstreams []netip.AddrPort) string {
	to := ""
	for _, u := range upstreams {
		to += " " + u.String()
	}
	return w.corefile(s, "nodecache 30\n    hedge ."+to)
}

func (w *world) corefile(s server, answers string) string {
	f := w.certs(s.name)
	return fmt.Sprintf(`.:%d {
    bind %s
    errors
    ready %s {
        monitor continuously
    }
    control %s {
        tls %s %s %s
        allow controller
    }
    clients
    drill
    %s
}
`, s.dns.Port(), s.dns.Addr(), s.ready, s.control, f.Cert, f.Key, f.CA, answers)
}

// upstreamCorefile answers for every name of one zone: the Internet of the demo.
func (w *world) upstreamCorefile() string {
	return fmt.Sprintf(`%s:%d {
    bind %s
    errors
    template IN A {
        answer "{{ .Name }} 30 IN A 192.0.2.80"
    }
    template IN AAAA {
        answer "{{ .Name }} 30 IN AAAA 2001:db8::80"
    }
}
`, zone, w.upstream.Port(), w.upstream.Addr())
}

// fleetFile is the controller's.
func (w *world) fleetFile(cast []*player) string {
	var b strings.Builder
	tls := func(indent string, f mtls.Files) {
		fmt.Fprintf(&b, "%[1]stls:\n%[1]s  ca: %[2]s\n%[1]s  cert: %[3]s\n%[1]s  key: %[4]s\n", indent, f.CA, f.Cert, f.Key)
	}
	b.WriteString("fleet: demo\ndrills:\n  enabled: true\nservers:\n")
	for _, s := range w.servers {
		fmt.Fprintf(&b, "  - name: %s\n    dns: [%q]\n    control: https://%s\n    ready: http://%s/ready\n", s.name, s.dns, s.control, s.ready)
	}
	tls("", w.certs("controller"))
	fmt.Fprintf(&b, "api:\n  listen: %q\n", w.api)
	tls("  ", w.certs("api"))
	fmt.Fprintf(&b, "  roles:\n    operator: [%s]\n", callerName)
	fmt.Fprintf(&b, "probe:\n  name: health.%s.\n  type: A\nnames:\n", zone)
	for _, p := range cast {
		fmt.Fprintf(&b, "  %s: [%q]\n", p.name, p.address)
	}
	return b.String()
}

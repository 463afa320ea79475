package house

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"firebreakdns.io/firebreak/controller/pki"
)

// block is a Corefile in the documentation.
type block struct {
	file string
	line int
	text string
}

// corefiles are the blocks fenced as corefile. A fragment, or one that cannot
// start here, is fenced as something else.
func corefiles(file, text string) (found []block) {
	var b *block
	for i, line := range strings.Split(text, "\n") {
		fence := strings.TrimSpace(line)
		switch {
		case b == nil && (strings.HasPrefix(fence, "```") || strings.HasPrefix(fence, "~~~")):
			if strings.TrimSpace(strings.TrimLeft(fence, "`~")) == "corefile" {
				b = &block{file: file, line: i + 1}
			}
		case b != nil && (fence == "```" || fence == "~~~"):
			found = append(found, *b)
			b = nil
		case b != nil:
			b.text += line + "\n"
		}
	}
	return found
}

// place is where a Corefile of the documentation can start: a folder of its own,
// ports that are free, loopback instead of others' addresses.
type place struct {
	t     *testing.T
	dir   string
	ports map[string]string // as written to a free one
}

func newPlace(t *testing.T) *place {
	return &place{t: t, dir: t.TempDir(), ports: map[string]string{}}
}

// port is the free port that stands for this one.
func (p *place) port(written string) string {
	p.t.Helper()
	if p.ports[written] == "" {
		// UDP and TCP, as a DNS server wants it.
		for range 100 {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				p.t.Fatal(err)
			}
			_, free, err := net.SplitHostPort(ln.Addr().String())
			if err != nil {
				p.t.Fatal(err)
			}
			pc, err := net.ListenPacket("udp", "127.0.0.1:"+free)
			ln.Close()
			if err == nil {
				pc.Close()
				p.ports[written] = free
				break
			}
		}
	}
	return p.ports[written]
}

// defaults are the addresses of directives that may be without one.
var defaults = map[string]string{"ready": ":8181", "health": ":8080", "prometheus": "localhost:9153", "pprof": "localhost:6053"}

// defaultPorts are the ports of server blocks that do not say any.
var defaultPorts = map[string]string{"dns": "53", "tls": "853", "quic": "853", "grpc": "443", "https": "443", "https3": "443"}

// fit rewrites a Corefile for this place. Nothing else changes.
func (p *place) fit(corefile string) string {
	p.t.Helper()
	var out strings.Builder
	var open []string // the directives whose blocks are open
	for line := range strings.Lines(corefile) {
		words := strings.Fields(line)
		if len(words) > 0 && !strings.HasPrefix(words[0], "#") {
			opens := words[len(words)-1] == "{"
			switch {
			case words[0] == "}":
				open = open[:max(0, len(open)-1)]
			case len(open) == 0 && opens && !strings.HasPrefix(words[0], "("):
				for i, w := range words[:len(words)-1] {
					words[i] = p.key(w)
				}
			default:
				words = p.directive(words, open)
			}
			if opens {
				open = append(open, words[0])
			}
			line = strings.Join(words, " ") + "\n"
		}
		out.WriteString(line)
		if len(open) == 2 && len(words) > 1 && words[0] == "kubernetes" {
			// No cluster here: CoreDNS waits five seconds for it and then starts.
			out.WriteString("endpoint http://127.0.0.1:" + p.port("kubernetes") + "\n")
		}
	}
	return out.String()
}

// key rewrites a key of a server block.
func (p *place) key(key string) string {
	comma := strings.HasSuffix(key, ",")
	key = strings.TrimSuffix(key, ",")
	scheme, rest, ok := strings.Cut(key, "://")
	if !ok {
		scheme, rest = "dns", key
	}
	zone, port := rest, defaultPorts[scheme]
	if i := strings.LastIndex(rest, ":"); i >= 0 && !strings.Contains(rest[i:], "]") && strings.Count(rest, ":") == 1 {
		zone, port = rest[:i], rest[i+1:]
	}
	key = scheme + "://" + zone + ":" + p.port(port)
	if comma {
		key += ","
	}
	return key
}

// directive rewrites a line inside a server block.
func (p *place) directive(words, open []string) []string {
	if len(open) == 1 {
		switch words[0] {
		case "bind":
			return []string{"bind", "127.0.0.1"}
		case "ready", "health", "prometheus", "pprof", "control":
			if len(words) > 1 && words[1] != "{" {
				words[1] = p.address(words[1])
			} else if addr := defaults[words[0]]; addr != "" {
				words = append([]string{words[0], p.address(addr)}, words[1:]...)
			}
		}
	}
	for i, w := range words[1:] {
		if strings.HasPrefix(w, "/") && w != "/" && w != "/etc/resolv.conf" && w != "/etc/hosts" {
			words[i+1] = p.path(w)
		}
	}
	if words[0] == "tls" && len(words) == 4 {
		p.certificates(words[1], words[2], words[3])
	}
	return words
}

// address rewrites an address to listen at.
func (p *place) address(addr string) string {
	if path, ok := strings.CutPrefix(addr, "unix://"); ok {
		return "unix://" + p.path(path)
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr // wrong in the documentation: let the server say so
	}
	return netip.MustParseAddr("127.0.0.1").String() + ":" + p.port(port)
}

// path is the path in this place that stands for one in the file system; its
// folder is there.
func (p *place) path(path string) string {
	p.t.Helper()
	// Short: a socket's path has a limit.
	here := filepath.Join(p.dir, path)
	if err := os.MkdirAll(filepath.Dir(here), 0o755); err != nil {
		p.t.Fatal(err)
	}
	return here
}

// certificates makes the files that a tls line names.
func (p *place) certificates(cert, key, ca string) {
	p.t.Helper()
	authority, err := pki.NewCA("docs", 0)
	if err != nil {
		p.t.Fatal(err)
	}
	pair, err := authority.Server(0)
	if err != nil {
		p.t.Fatal(err)
	}
	for path, content := range map[string][]byte{cert: pair.Cert, key: pair.Key, ca: pair.CA} {
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.dir, path)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

func TestFit(t *testing.T) {
	p := newPlace(t)
	p.ports = map[string]string{"53": "1", "853": "2", "9153": "3", "8181": "4", "9443": "5", "5353": "6", "8080": "7"}
	got := p.fit(`. example.org:5353 {
    bind 169.254.20.10
    control 192.0.2.1:9443 {
        allow jane
    }
    ready {
        monitor continuously
    }
    health
    prometheus :9153
    forward . 192.0.2.53 /etc/resolv.conf
}
tls://. {
    whoami
}
`)
	want := `dns://.:1 dns://example.org:6 {
bind 127.0.0.1
control 127.0.0.1:5 {
allow jane
}
ready 127.0.0.1:4 {
monitor continuously
}
health 127.0.0.1:7
prometheus 127.0.0.1:3
forward . 192.0.2.53 /etc/resolv.conf
}
tls://.:2 {
whoami
}
`
	if got != want {
		t.Errorf("Fit = %s\nwant %s", got, want)
	}
	sample := "text\n```corefile\na\n```\n~~~ txt\nb\n~~~\n~~~ corefile\nc\n~~~\n"
	if found := corefiles("x.md", sample); len(found) != 2 || found[0].text != "a\n" || found[1].text != "c\n" || found[1].line != 8 {
		t.Errorf("Corefiles of the sample = %+v, want a and c", found)
	}
}

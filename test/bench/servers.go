package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"firebreakdns.io/firebreak/test/bench/program"
)

// place is where a server is to run, and what for.
type place struct {
	dir      string // its own, empty
	tools    *tools
	port     int // of its DNS service on 127.0.0.1; 0: any
	extra    int // another, for metrics or the like
	upstream int
	workers  int
	entries  int    // what its cache has to hold; 0: what a default holds
	secure   bool   // DNS over TLS instead, for who can
	profile  bool   // with the profiles of a Go program on extra
	snapshot string // a file to keep the cache in, for who can
}

// write puts a file in the place and returns its path.
func (p *place) write(name, text string) (string, error) {
	path := filepath.Join(p.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // read by servers that drop root
}

// server is a description of one under test.
type server struct {
	name, title string
	kind        kind
	pkg         string // Debian's package, if it is one
	binary      string // whose presence decides; "" is one that we build
	version     []string
	most        int  // workers; 0: any number
	streams     bool // also measured on TCP, TLS and misses
	variant     bool // answers one question; not measured beside the others
	streamsOnly bool // measured on nothing else
	// needs are plugins that the build must have, for those of the Corefile kind.
	needs []string
	// processes are what has to run.
	processes func(p *place) ([]program.Spec, error)
}

// kind of a server, as the picture tells them apart.
type kind string

const (
	floorKind kind = "floor"
	oursKind  kind = "ours"
	stockKind kind = "CoreDNS"
	peerKind  kind = "Debian"
)

// servers in the order of the table.
var servers = slices.Concat(floors, ours, stock, debian)

var ours = []server{
	{
		name: "ours", title: "Firebreak node cache", kind: oursKind, streams: true,
		needs: []string{"nodecache", "hedge"},
		processes: corefile(func(p *place) string {
			return ". {\n" + where(p) + "    errors\n    clients\n    drill\n    " + prometheus(p) + nodecache(p) + fmt.Sprintf("    hedge . 127.0.0.1:%d\n}\n", p.upstream)
		}),
	},
	{
		name: "ours-bare", title: "Firebreak node cache without clients and drill", kind: oursKind, variant: true,
		needs: []string{"nodecache", "hedge"},
		processes: corefile(func(p *place) string {
			return ". {\n" + where(p) + "    errors\n    " + prometheus(p) + nodecache(p) + fmt.Sprintf("    hedge . 127.0.0.1:%d\n}\n", p.upstream)
		}),
	},
	{
		// What CoreDNS's cache + forward does, with as little around it.
		name: "ours-plain", title: "Firebreak nodecache + hedge", kind: oursKind, streams: true, streamsOnly: true,
		needs: []string{"nodecache", "hedge"},
		processes: corefile(func(p *place) string {
			return ". {\n" + where(p) + nodecache(p) + fmt.Sprintf("    hedge . 127.0.0.1:%d\n}\n", p.upstream)
		}),
	},
}

var stock = []server{
	{
		name: "coredns", title: "CoreDNS cache + forward", kind: stockKind, streams: true,
		processes: corefile(func(p *place) string {
			return ". {\n" + where(p) + multisocket(p) + cache(p, "") + fmt.Sprintf("    forward . 127.0.0.1:%d\n}\n", p.upstream)
		}),
	},
	{
		// The addon's Corefile, its addresses but for ours: what stands between
		// upstreams and pods on most clusters today.
		name: "nodelocal", title: "NodeLocal DNSCache's Corefile", kind: stockKind, streams: true,
		processes: corefile(func(p *place) string {
			block := func(zone, cache, options string) string {
				return zone + " {\n    errors\n" + cache + "    reload\n    loop\n" + where(p) + multisocket(p) +
					fmt.Sprintf("    forward . 127.0.0.1:%d%s\n    %s}\n", p.upstream, options, prometheus(p))
			}
			const tcp = " {\n        force_tcp\n    }"
			return block("cluster.local", cache(p, "success 9984 30\n        denial 9984 5"), tcp) +
				block("in-addr.arpa", "    cache 30\n", tcp) +
				block("ip6.arpa", "    cache 30\n", tcp) +
				block(".", "    cache 30\n", "")
		}),
	},
}

// corefile makes a server out of a Corefile on our build, which has every
// plugin that it needs: the code is one, what is measured is what it does.
func corefile(text func(p *place) string) func(p *place) ([]program.Spec, error) {
	return func(p *place) ([]program.Spec, error) {
		body := text(p)
		if p.secure {
			cert, key, err := selfSigned(p.dir)
			if err != nil {
				return nil, err
			}
			body = overTLS(body, p.port, cert, key)
		}
		path, err := p.write("Corefile", body)
		if err != nil {
			return nil, err
		}
		return []program.Spec{{
			Args: []string{p.tools.coredns, "-conf", path, "-dns.port", fmt.Sprint(p.port)},
			Env:  []string{fmt.Sprintf("GOMAXPROCS=%d", p.workers)},
		}}, nil
	}
}

// overTLS has every server block of a Corefile serve DNS over TLS alone.
func overTLS(body string, port int, cert, key string) string {
	lines := strings.Split(body, "\n")
	for i, line := range lines {
		if zone, opens := strings.CutSuffix(line, " {"); opens && !strings.HasPrefix(line, " ") {
			lines[i] = fmt.Sprintf("tls://%s:%d {\n    tls %s %s", zone, port, cert, key)
		}
	}
	return strings.Join(lines, "\n")
}

func where(p *place) string {
	text := "    bind 127.0.0.1\n"
	if p.profile {
		text += fmt.Sprintf("    pprof 127.0.0.1:%d\n", p.extra)
	}
	return text
}

func prometheus(p *place) string {
	if p.profile {
		return "\n" // its port is the profiles'
	}
	return fmt.Sprintf("prometheus 127.0.0.1:%d\n", p.extra)
}

// multisocket is how stock CoreDNS uses more than one CPU for UDP.
func multisocket(p *place) string {
	if p.workers == 1 {
		return ""
	}
	return fmt.Sprintf("    multisocket %d\n", p.workers)
}

// cache is stock's, with these options or, where more has to be held, with room
// for it: its 256 shards fill unevenly, so twice.
func cache(p *place, options string) string {
	if p.entries > 0 {
		options = fmt.Sprintf("success %d 3600", 2*p.entries)
	}
	if options == "" {
		return "    cache\n"
	}
	return "    cache {\n        " + options + "\n    }\n"
}

// nodecache is ours, as it comes; where more has to be held, with room and time for it.
func nodecache(p *place) string {
	var options []string
	if p.entries > 0 {
		options = append(options, "success 0 3600", fmt.Sprintf("bytes %dMiB", 64+p.entries/1000))
	}
	if p.snapshot != "" {
		options = append(options, fmt.Sprintf("snapshot %s %dMiB", p.snapshot, 64+p.entries/1000))
	}
	if len(options) == 0 {
		return "    nodecache\n"
	}
	return "    nodecache {\n        " + strings.Join(options, "\n        ") + "\n    }\n"
}

func serverNames() (names []string) {
	for _, s := range servers {
		names = append(names, s.name)
	}
	return names
}

func serverNamed(name string) *server {
	for i := range servers {
		if servers[i].name == name {
			return &servers[i]
		}
	}
	return nil
}

package wire

import (
	"fmt"
	"net"
	"slices"

	"firebreakdns.io/firebreak/plugin/pkg/blocks"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/bufsize"
	"github.com/coredns/coredns/plugin/pkg/transport"
)

// Listener is an address of plain DNS in a Corefile, and the server blocks that
// CoreDNS chooses from there.
type Listener struct {
	Addr    string // HOST:PORT as in the server's address
	Sockets int    // that CoreDNS opens (multisocket)
	Blocks  []Block
	Off     string // why the wire path leaves the whole address alone; "": it does not
}

// Server is the listener's address as it stands in the server label.
func (l *Listener) Server() string { return transport.DNS + "://" + l.Addr }

// Block is one zone of a server block at one listener.
type Block struct {
	Zone     string
	Config   *dnsserver.Config
	Handlers []plugin.Handler // in the order of the chain
	MaxSize  int              // what bufsize bounds the client's UDP size to; 0: it does not
	Off      string           // why its queries go the slow way; "": they do not
}

// Ahead is the handler of that name, if it stands ahead of the cache, or nil.
func (b *Block) Ahead(name, cache string) plugin.Handler {
	for _, h := range b.Handlers {
		if h.Name() == cache {
			return nil
		}
		if h.Name() == name {
			return h
		}
	}
	return nil
}

// harmless are the plugins that do nothing to a query that Parse takes and that
// the cache can answer. The reason stands behind each.
var harmless = map[string]bool{
	"any":    true, // only type ANY, which Parse leaves
	"chaos":  true, // only class CH, which Parse leaves
	"nsid":   true, // only queries with its EDNS option, which Parse leaves
	"cancel": true, // a hit does not wait
	"errors": true, // a hit has none
}

// Plan reads the Corefile that c belongs to: which of its addresses and server
// blocks the wire path may answer for. cache is the name of the plugin that the
// engine answers from; standsFor are those ahead of it that the engine stands in
// for. It is for OnStartup, when all plugins are set up.
func Plan(c *caddy.Controller, cache string, standsFor ...string) []Listener {
	var out []Listener
	hooked := hooksOf(c)
	for _, block := range blocks.All(c) {
		cfg := block.Config
		if cfg.Transport != transport.DNS {
			continue
		}
		for _, host := range cfg.ListenHosts {
			addr, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, cfg.Port))
			if err != nil {
				continue // CoreDNS says so itself
			}
			i := slices.IndexFunc(out, func(l Listener) bool { return l.Addr == addr.String() })
			if i < 0 {
				out = append(out, Listener{Addr: addr.String(), Sockets: max(cfg.NumSockets, 1)})
				i = len(out) - 1
			}
			l := &out[i]
			if l.Off == "" {
				l.Off = listenerOff(cfg, hooked[block.Index])
			}
			l.Blocks = append(l.Blocks, newBlock(cfg, cache, standsFor))
		}
	}
	return out
}

// listenerOff says why no packet of cfg's listeners may be answered by us.
func listenerOff(cfg *dnsserver.Config, hook *hook) string {
	switch {
	case cfg.ProxyProtoConnPolicy != nil:
		return "proxyproto changes what a packet is"
	case cfg.UDPDecorateWriterFunc != nil && (hook == nil || hook.foreign):
		return "another plugin (shed) decorates what is written to this socket"
	case cfg.Handler("dynupdate") != nil:
		return "dynupdate takes packets that are no queries"
	}
	return ""
}

func newBlock(cfg *dnsserver.Config, cache string, standsFor []string) Block {
	b := Block{Zone: cfg.Zone, Config: cfg, Handlers: cfg.Handlers()}
	switch {
	case len(cfg.FilterFuncs) > 0 || cfg.ViewName != "":
		b.Off = "view chooses by more than the name"
	case cfg.Handler("metadata") != nil:
		b.Off = "metadata looks at every query"
	case cfg.Handler(cache) == nil:
		b.Off = "it has no " + cache
	case len(cfg.Plugin) != len(b.Handlers):
		// Handlers finds a plugin only if it is called as its directive.
		b.Off = "it has a plugin whose name is not its directive's"
	}
	for _, h := range b.Handlers {
		if b.Off != "" || h.Name() == cache {
			break
		}
		if s, ok := h.(bufsize.Bufsize); ok {
			b.MaxSize = s.Size
			continue
		}
		if !harmless[h.Name()] && !slices.Contains(standsFor, h.Name()) {
			b.Off = fmt.Sprintf("%s stands ahead of %s", h.Name(), cache)
		}
	}
	return b
}

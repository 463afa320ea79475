package wire

import (
	"strings"
	"sync/atomic"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/pkg/transport"

	"github.com/miekg/dns"
)

// hook is in a server block's decorator of UDP writers.
type hook struct {
	foreign bool // somebody had set one before
}

// hooksKey is where an instance's hooks stand in its caddy storage.
type hooksKey struct{}

func hooksOf(c *caddy.Controller) map[int]*hook {
	h, _ := c.Get(hooksKey{}).(map[int]*hook)
	return h
}

// Hook has CoreDNS tell of the servers of the block that c sets up. serving is
// called with each, before it takes its first packet, and says the address's
// group, or nil. CoreDNS's only hook there is the one that decorates what is
// written to a UDP socket (dnsserver.Config.UDPDecorateWriterFunc); what was set
// before stays in force.
func Hook(c *caddy.Controller, serving func(addr string, s *dnsserver.Server) *Group) {
	hooks := hooksOf(c)
	if hooks == nil {
		hooks = make(map[int]*hook)
		c.Set(hooksKey{}, hooks)
	}
	cfg := dnsserver.GetConfig(c)
	before := cfg.UDPDecorateWriterFunc
	hooks[c.ServerBlockIndex] = &hook{foreign: before != nil}
	cfg.UDPDecorateWriterFunc = func(s *dnsserver.Server) dns.DecorateWriter {
		var theirs dns.DecorateWriter
		if before != nil {
			theirs = before(s)
		}
		addr, plain := strings.CutPrefix(s.Address(), transport.DNS+"://")
		if !plain {
			return theirs
		}
		g := serving(addr, s)
		if g == nil {
			return theirs
		}
		// It is asked for every packet that reaches CoreDNS's own socket, which is
		// how we know that the steering does not.
		strays := g.Strays()
		return func(w dns.Writer) dns.Writer {
			strays.Add(1)
			if theirs != nil {
				return theirs(w)
			}
			return w
		}
	}
}

// Strays counts queries that came in at CoreDNS's own socket.
type Strays struct{ n atomic.Int64 }

// Add counts.
func (s *Strays) Add(n int64) { s.n.Add(n) }

// Taken is how many there were since the last call.
func (s *Strays) Taken() int64 { return s.n.Swap(0) }

package drill

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/clients/tenure"
	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	ctransport "github.com/coredns/coredns/plugin/pkg/transport"
)

const pluginName = "drill"

var log = clog.NewWithPlugin(pluginName)

func init() { plugin.Register(pluginName, setup) }

// corefile is one Corefile's part in the process's drill.
type corefile struct {
	leave  *leave
	blocks []*caddy.Controller // server blocks with the plugin
}

// holders are the Corefiles that have the plugin. While there is one, a drill
// can be on.
var holders = tenure.New(apply)

// own are the addresses that this process listens on.
var own struct {
	sync.Mutex
	listening []netip.Addr
}

func listening() []netip.Addr {
	own.Lock()
	defer own.Unlock()
	return slices.Clone(own.listening)
}

// apply takes over from one Corefile to the next.
func apply(live []*corefile) {
	if len(live) == 0 {
		engine.Remove()
		return
	}
	var addrs []netip.Addr
	for _, c := range live {
		for _, block := range c.blocks {
			for _, server := range clients.Servers(block) {
				if a, ok := addressOf(server); ok {
					addrs = append(addrs, a)
				}
			}
		}
	}
	own.Lock()
	own.listening = addrs
	own.Unlock()
	engine.Refresh()
}

// addressOf is the IP address that a server listens on; a wildcard is none.
func addressOf(server string) (netip.Addr, bool) {
	_, host, _, err := dnsserver.SplitProtocolHostPort(server)
	if err != nil {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(host)
	if err != nil || a.IsUnspecified() {
		return netip.Addr{}, false
	}
	return clients.Normal(a), true
}

func setup(c *caddy.Controller) error {
	if err := parse(c); err != nil {
		return plugin.Error(pluginName, err)
	}
	if !clients.Configured(c) {
		return plugin.Error(pluginName, c.Err("drill needs clients in the same server block, which knows whom it drills: add clients to it"))
	}
	mine, first := holders.Options(c)
	if first {
		mine.leave = newLeave()
		// These run before the old servers stop and wait for their requests.
		c.OnRestart(func() error { mine.leave.now(); return nil })
		c.OnRestartFailed(func() error { mine.leave.stay(); return nil })
	}
	mine.blocks = append(mine.blocks, c)
	c.OnStartup(func() error {
		for _, server := range clients.Servers(c) {
			zero(server)
		}
		return nil
	})
	if overHTTP2(c) {
		keepStreams(dnsserver.GetConfig(c))
	}
	d := &Drill{engine: engine, leave: mine.leave}
	control.Provide(c, control.Provider{
		Feature: protocol.FeatureDrill,
		Routes:  engine.routes,
		State:   func(s *protocol.State) { s.Drill = engine.State() },
	})
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		d.Next = next
		return d
	})
	return nil
}

// overHTTP2 says whether the server block answers DoH. One block may have several
// transports, and CoreDNS takes the timeouts of all from the first.
func overHTTP2(c *caddy.Controller) bool {
	return slices.ContainsFunc(c.ServerBlockKeys, func(key string) bool {
		return strings.HasPrefix(key, ctransport.HTTPS+"://")
	})
}

// keepStreams lets a DoH stream stay open, unanswered, for as long as a drill can
// last: after its write timeout (by default 5 s) CoreDNS resets it, which tells
// the client what a dead node would not. A timeout of the Corefile (see timeouts)
// stays as it is. It is a timeout for clients that do not read their answers; how
// many connections those can hold is bounded elsewhere (max_connections).
func keepStreams(config *dnsserver.Config) {
	if config.WriteTimeout == 0 {
		config.WriteTimeout = protocol.MaxDrillSeconds*time.Second + time.Minute
	}
}

func parse(c *caddy.Controller) error {
	for n := 0; c.Next(); n++ {
		if n > 0 {
			return plugin.ErrOnce
		}
		if args := c.RemainingArgs(); len(args) != 0 {
			return c.Errf("%q: drill takes no arguments", args[0])
		}
		if c.NextBlock() {
			return c.Errf("%q: drill has no options: what a drill does comes with its order", c.Val())
		}
	}
	return nil
}

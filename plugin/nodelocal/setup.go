package nodelocal

import (
	"firebreakdns.io/firebreak/plugin/clients/tenure"
	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/nodecache"
	"firebreakdns.io/firebreak/plugin/nodelocal/scrape"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
)

const pluginName = "nodelocal"

var log = clog.NewWithPlugin(pluginName)

func init() { plugin.Register(pluginName, setup) }

// wish is what a Corefile wants of the node.
type wish struct {
	*options
	controller *caddy.Controller
	serves     bool // its servers listen; the keeper's lock is for it
}

// holders are the Corefiles that want the node's addresses.
var holders = tenure.New(node.want)

func setup(c *caddy.Controller) error {
	o, err := parse(c)
	if err != nil {
		nodecache.SetupError(nodecache.SetupErrorConfig)
		return plugin.Error(pluginName, err)
	}
	if mine := holders.Peek(c); mine != nil {
		if !mine.same(o) {
			nodecache.SetupError(nodecache.SetupErrorConfig)
			return plugin.Error(pluginName, c.Err("a process has the node's addresses once, and another server block says something else: keep one directive, or the same in all"))
		}
		return nil // it is in all server blocks already
	}
	// Before the holders': who cannot have the addresses is none.
	w := &wish{options: o, controller: c}
	watchStarts()
	c.OnStartup(func() error {
		if err := node.prepare(w); err != nil {
			return plugin.Error(pluginName, err)
		}
		return nil
	})
	mine, _ := holders.Options(c)
	*mine = *w
	register()
	scrape.Beside(c)
	control.Provide(c, control.Provider{Feature: protocol.FeatureNodeLocal, Routes: routes})
	// What is asked to try the server may be for any of its server blocks.
	dnsserver.AddPluginToAllServerBlocks(c, func(next plugin.Handler) plugin.Handler {
		return &handler{next: next}
	})
	return nil
}

// watchStarts has the keeper told when a Corefile's servers listen. Each set-up asks
// for it, since a reload by SIGUSR1 throws all hooks away first; caddy says that one
// is there already by a panic, and in no other way.
func watchStarts() {
	defer func() { _ = recover() }()
	caddy.RegisterEventHook(pluginName, func(event caddy.EventName, _ any) error {
		if event == caddy.InstanceStartupEvent {
			node.serving()
		}
		return nil
	})
}

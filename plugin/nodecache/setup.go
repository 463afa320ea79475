package nodecache

import (
	"path/filepath"

	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
)

const pluginName = "nodecache"

var log = clog.NewWithPlugin(pluginName)

func init() { plugin.Register(pluginName, setup) }

func setup(c *caddy.Controller) error {
	if holders.Peek(c) == nil {
		// Before the holders': what they close may still answer for the old servers.
		c.OnShutdown(func() error { retire(holders.Peek(c)); return nil })
	}
	p, first := holders.Options(c)
	if first {
		p.controller = c
		register()
		control.Provide(c, control.Provider{Feature: protocol.FeatureCache, Routes: routes})
	}
	o, err := parse(c, p)
	if err != nil {
		return plugin.Error(pluginName, err)
	}
	cache := &Cache{options: o}
	p.caches = append(p.caches, &blockCache{Cache: cache, controller: c})
	wire.Hook(c, p.serving)

	c.OnStartup(func() error { // after the holders'
		for _, h := range dnsserver.GetConfig(c).Handlers() {
			if b, ok := h.(interface{ CacheBypassZones() []string }); ok {
				cache.bypass = append(cache.bypass, b.CacheBypassZones()...)
			}
		}
		return nil
	})
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		cache.Next = next
		return cache
	})
	return nil
}

// underRoot is path as the root plugin wants it.
func underRoot(c *caddy.Controller, path string) string {
	if root := dnsserver.GetConfig(c).Root; root != "" && !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	return filepath.Clean(path)
}

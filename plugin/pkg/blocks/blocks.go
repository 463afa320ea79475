// Package blocks finds all server blocks of the Corefile that a plugin's set-up
// belongs to: CoreDNS keeps its list to itself.
package blocks

import (
	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
)

// Block is one zone of a server block.
type Block struct {
	*dnsserver.Config
	Index int // of the server block in the Corefile
}

// All are those of c's Corefile, in its order. It is for OnStartup, when all
// plugins are set up: asking for a position that there is not, which is how the end
// is found, makes an empty config there. The servers are made by then, so that
// nobody will see it.
func All(c *caddy.Controller) []Block {
	var out []Block
	at := *c
	for at.ServerBlockIndex = 0; ; at.ServerBlockIndex++ {
		for at.ServerBlockKeyIndex = 0; ; at.ServerBlockKeyIndex++ {
			cfg := dnsserver.GetConfig(&at)
			if cfg.Port == "" {
				break
			}
			out = append(out, Block{Config: cfg, Index: at.ServerBlockIndex})
		}
		if at.ServerBlockKeyIndex == 0 {
			return out
		}
	}
}

package nodecache

import (
	"fmt"
	"testing"

	"github.com/coredns/caddy"
	"github.com/miekg/dns"
)

// corefileOf is a Corefile with a server block for each of the zones.
func corefileOf(zones ...string) *processOptions {
	o := &processOptions{}
	for i, z := range zones {
		c := caddy.NewTestController("dns", "")
		c.ServerBlockKeys, c.ServerBlockIndex = []string{"dns://" + z + ":53"}, i
		o.caches = append(o.caches, &blockCache{Cache: &Cache{}, controller: c})
	}
	return o
}

// TestOneStoreForAllBlocks: server blocks share one bound and no entries, and a
// reload gives each what it had, in whichever order they stand now.
func TestOneStoreForAllBlocks(t *testing.T) {
	p := &process{store: newStore(1 << 20), blocks: make(map[string]uint16)}
	first := corefileOf("cluster.local.", ".", ".")
	p.adopt(first)
	seen := make(map[uint16]bool)
	for _, c := range first.caches {
		if c.store != p.store || seen[c.block] {
			t.Errorf("block %d: store %p of %p", c.block, c.store, p.store)
		}
		seen[c.block] = true
	}
	put := func(c *blockCache, name string) {
		e := entryOf(t, answer(t, name, dns.TypeA, name+" 300 IN A 192.0.2.1"), wide)
		e.block, e.hold = c.block, 600
		p.store.put(e, 0)
	}
	has := func(c *blockCache, name string) bool {
		k := keyFor(t, name, dns.TypeA, 0)
		k.block = c.block
		return p.store.get(k) != nil
	}
	put(first.caches[0], "a.example.")
	if !has(first.caches[0], "a.example.") || has(first.caches[1], "a.example.") {
		t.Error("one block answers what another one learnt, or not what it learnt itself")
	}
	// What one block fills is taken from all.
	for i := range 20_000 {
		put(first.caches[1], fmt.Sprintf("n%d.example.", i))
	}
	if a, d, limit := p.store.usage(); a.bytes+d.bytes > limit || a.evicted == 0 {
		t.Errorf("%d bytes are held, %d evicted: the bound is %d for all", a.bytes+d.bytes, a.evicted, limit)
	}
	second := corefileOf(".", "other.example.", "cluster.local.")
	p.adopt(second)
	p.forgetBlocks([]*processOptions{second})
	if second.caches[2].block != first.caches[0].block || second.caches[0].block != first.caches[1].block {
		t.Error("a reload gave a block another one's entries")
	}
	if n := second.caches[1].block; n == second.caches[0].block || n == second.caches[2].block {
		t.Error("a new block has an old one's entries")
	}
}

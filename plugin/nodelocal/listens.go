//go:build linux

package nodelocal

import (
	"fmt"
	"net/netip"
	"strconv"

	"firebreakdns.io/firebreak/plugin/pkg/blocks"

	"github.com/coredns/coredns/plugin/pkg/transport"
)

// listensAt says which address no server block will listen at: nobody would answer
// there.
func listensAt(w *wish) error {
	port := strconv.Itoa(int(w.port))
	listens := make(map[netip.Addr]bool)
	for _, b := range blocks.All(w.controller) {
		if b.Transport != transport.DNS || b.Port != port {
			continue
		}
		for _, host := range b.ListenHosts {
			a, err := netip.ParseAddr(host)
			if host == "" || err == nil && a.IsUnspecified() {
				return nil // everywhere
			}
			listens[a.Unmap()] = true
		}
	}
	for _, a := range w.addrs {
		if !listens[a] {
			return fmt.Errorf("no server block listens at %s: add it to the bind lines (bind %s), or say another port", netip.AddrPortFrom(a, w.port), a)
		}
	}
	return nil
}

//go:build linux

package nodelocal

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"firebreakdns.io/firebreak/plugin/pkg/wire"
)

// listensAt says which address no server block will listen at: nobody would answer
// there.
func listensAt(w *wish) error {
	var hosts []netip.Addr
	everywhere := false
	for _, l := range wire.Plan(w.controller, pluginName) {
		host, port, err := net.SplitHostPort(l.Addr)
		if err != nil || port != fmt.Sprint(w.port) {
			continue
		}
		a, err := netip.ParseAddr(host)
		if host == "" || err == nil && a.IsUnspecified() {
			everywhere = true
		}
		hosts = append(hosts, a.Unmap())
	}
	for _, a := range w.addrs {
		if !everywhere && !slices.Contains(hosts, a) {
			return fmt.Errorf("no server block listens at %s: add it to the bind lines (bind %s), or say another port", netip.AddrPortFrom(a, w.port), a)
		}
	}
	return nil
}

//go:build linux

package link

import (
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// sourceTo is the address with which this host sends to another: invalid where
// there is no way, or where it is local already.
func sourceTo(to netip.Addr) netip.Addr {
	routes, err := netlink.RouteGet(to.AsSlice())
	if err != nil {
		return netip.Addr{}
	}
	for _, r := range routes {
		if r.Type == unix.RTN_LOCAL {
			return netip.Addr{}
		}
		if a, ok := netip.AddrFromSlice(r.Src); ok && a.Unmap() != to {
			return a.Unmap()
		}
	}
	return netip.Addr{}
}

// localRoute is the kernel's own to an address of a link, with another source if
// there is one.
func localRoute(on netlink.Link, a, source netip.Addr) *netlink.Route {
	r := &netlink.Route{
		LinkIndex: on.Attrs().Index, Dst: hostNet(a), Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL,
		Protocol: unix.RTPROT_KERNEL,
	}
	if a.Is4() {
		r.Scope = netlink.SCOPE_HOST
	}
	if source.IsValid() {
		r.Src = net.IP(source.AsSlice())
	}
	return r
}

// keepSource has this host go on sending to the address with the source that it
// had.
func keepSource(on netlink.Link, a, source netip.Addr) error {
	if a.Is4() {
		return netlink.RouteReplace(localRoute(on, a, source))
	}
	// IPv6 has one such route for each metric; the kernel's own has 0 and comes first.
	// It makes that one a moment after the address.
	own := localRoute(on, a, netip.Addr{})
	for range 100 {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V6, own, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_DST)
		if err != nil {
			return err
		}
		for _, r := range routes {
			if r.Priority == 0 {
				if err := netlink.RouteReplace(localRoute(on, a, source)); err != nil {
					return err
				}
				return netlink.RouteDel(own)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil // no route, and so nothing to keep
}

// dropRoute removes what keepSource left: the kernel removes its own alone.
func dropRoute(on netlink.Link, a netip.Addr) {
	_ = netlink.RouteDel(&netlink.Route{LinkIndex: on.Attrs().Index, Dst: hostNet(a), Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Scope: scopeOf(a)})
}

func scopeOf(a netip.Addr) netlink.Scope {
	if a.Is4() {
		return netlink.SCOPE_HOST
	}
	return netlink.SCOPE_UNIVERSE
}

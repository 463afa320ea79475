package steer

import "net/netip"

// Reach is an address at which this machine reaches what listens at addr, HOST:PORT:
// itself, unless that is every address.
func Reach(addr string) string {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil || !ap.Addr().IsUnspecified() {
		return addr
	}
	to := netip.IPv6Loopback()
	if ap.Addr().Is4() {
		to = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.AddrPortFrom(to, ap.Port()).String()
}

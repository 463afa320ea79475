//go:build linux

package stubs

import (
	"fmt"
	"net/netip"
)

// Who is where in the lab.
const (
	serverCount = 3
	zone        = "stub.test."
	controlPort = 9353
)

var (
	serviceAddr    = netip.MustParseAddr("203.0.113.53")
	controllerAddr = netip.MustParseAddr("192.0.2.2")
	clientNet      = netip.MustParsePrefix("198.51.100.0/24")
	clientNet6     = netip.MustParsePrefix("2001:db8:51::/64")
)

func serverName(i int) string { return fmt.Sprintf("ns%d", i+1) }

func serverAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(11 + i)}) } // #nosec G115 -- three of them

func clientAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, 100, byte(10 + i)}) } // #nosec G115 -- a list's lines

func serverAddr6(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:2::%d", 11+i)) }

func clientAddr6(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:51::%d", 10+i)) }

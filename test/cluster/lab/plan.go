package lab

import (
	"fmt"
	"net"
	"net/netip"
)

// plan is the addresses of a cluster, all made from its index, so that clusters
// side by side have none in common.
type plan struct{ index int }

// The limits of a plan: indexes from 0, nodes from 1.
const (
	maxClusters = 32
	maxNodes    = 99
)

// machines4 is the network that all machines and the host are on.
func (p plan) machines4() netip.Prefix { return prefix4(172, 30, p.index, 0, 24) }

func (p plan) machines6() netip.Prefix { return p.prefix6(0, 64) }

// control4 is the address of the control plane's machine and of the API server.
func (p plan) control4() netip.Addr { return nth(p.machines4(), 1) }

func (p plan) control6() netip.Addr { return nth(p.machines6(), 1) }

// host4 is the host's own address on the machines' network.
func (p plan) host4() netip.Addr { return nth(p.machines4(), 254) }

func (p plan) host6() netip.Addr { return nth(p.machines6(), 254) }

// node4 is the address of a node.
func (p plan) node4(node int) netip.Addr { return nth(p.machines4(), 100+node) }

func (p plan) node6(node int) netip.Addr { return nth(p.machines6(), 100+node) }

// pods4 is where the addresses of all pods are.
func (p plan) pods4() netip.Prefix { return prefix4(10, 128+p.index, 0, 0, 16) }

func (p plan) pods6() netip.Prefix { return p.prefix6(0x100, 56) }

// nodePods4 is where the addresses of a node's pods are.
func (p plan) nodePods4(node int) netip.Prefix { return prefix4(10, 128+p.index, node, 0, 24) }

func (p plan) nodePods6(node int) netip.Prefix { return p.prefix6(0x100+node, 64) }

// services4 is where the addresses of all Services are.
func (p plan) services4() netip.Prefix { return prefix4(10, 96+p.index, 0, 0, 16) }

func (p plan) services6() netip.Prefix { return p.prefix6(0xff00, 112) }

// dns4 is the Service address that pods are told to ask.
func (p plan) dns4() netip.Addr { return nth(p.services4(), 10) }

// server is the URL of the API server.
func (p plan) server() string { return fmt.Sprintf("https://%s:6443", p.control4()) }

// free says whether none of the host's own links has one of the plan's
// addresses.
func (p plan) free() (bool, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	for _, addr := range addrs {
		there, err := netip.ParsePrefix(addr.String())
		if err != nil {
			continue
		}
		for _, ours := range []netip.Prefix{p.machines4(), p.machines6(), p.pods4(), p.pods6(), p.services4(), p.services6()} {
			if ours.Overlaps(there.Masked()) {
				return false, nil
			}
		}
	}
	return true, nil
}

// prefix6 is a network in the cluster's /48 of unique local addresses.
func (p plan) prefix6(subnet, bits int) netip.Prefix {
	addr := [16]byte{0xfd, 0x66, 0x62, 0x72, 0x6b, byte(p.index), byte(subnet >> 8), byte(subnet)}
	return netip.PrefixFrom(netip.AddrFrom16(addr), bits)
}

func prefix4(a, b, c, d, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(a), byte(b), byte(c), byte(d)}), bits)
}

// nth is the nth address of a network, for n below 256.
func nth(network netip.Prefix, n int) netip.Addr {
	bytes := network.Addr().AsSlice()
	bytes[len(bytes)-1] += byte(n)
	addr, _ := netip.AddrFromSlice(bytes)
	return addr
}

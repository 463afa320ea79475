//go:build linux

package nodelocal

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// socket is one line of /proc/net/udp and its like.
type socket struct {
	local netip.AddrPort
	uid   int
}

// errPort says that the port is somebody else's.
var errPort = errors.New("the port is taken")

// portFree says who is in the way of listening at an address, before CoreDNS tries:
// its own error would not say. served says that ours may be listening there: then
// no socket is bound that could take packets away with it.
func portFree(at netip.AddrPort, served bool) error {
	for _, network := range []string{"udp", "tcp"} {
		sockets, err := listening(network)
		if err != nil {
			return fmt.Errorf("reading who listens: %w", err)
		}
		for _, s := range sockets {
			if s.local.Port() != at.Port() || s.local.Addr() != at.Addr() && !s.local.Addr().IsUnspecified() {
				continue
			}
			if s.uid != os.Geteuid() && inTheWay(s, at) {
				return fmt.Errorf("%w: user %d listens at %s over %s, and only processes of one user (this one: %d) can share it: end that program (ss -lpn 'sport = :%d'), have it bind other addresses, or run both as the same user",
					errPort, s.uid, s.local, network, os.Geteuid(), at.Port())
			}
		}
		if served && network == "udp" {
			continue
		}
		if err := bindable(network, at); err != nil {
			if errors.Is(err, unix.EADDRINUSE) {
				return fmt.Errorf("%w: a program listens at port %d over %s without sharing it (as dnsmasq or systemd-resolved do at all addresses): end it, or have it bind other addresses (ss -lpn 'sport = :%d')", errPort, at.Port(), network, at.Port())
			}
			if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
				return fmt.Errorf("listening at %s over %s: %w: give the process the capability NET_BIND_SERVICE", at, network, err)
			}
			return fmt.Errorf("listening at %s over %s: %w", at, network, err)
		}
	}
	return nil
}

// inTheWay says whether a socket of another user keeps ours from the address.
func inTheWay(s socket, at netip.AddrPort) bool {
	return s.local.Addr() == at.Addr() || s.local.Addr().IsUnspecified() && (s.local.Addr().Is6() || at.Addr().Is4())
}

// bindable binds the address as CoreDNS does, and lets go at once. It does not
// listen: a connection that came in would be lost.
func bindable(network string, at netip.AddrPort) error {
	domain, kind := unix.AF_INET, unix.SOCK_DGRAM
	if at.Addr().Is6() {
		domain = unix.AF_INET6
	}
	if network == "tcp" {
		kind = unix.SOCK_STREAM
	}
	fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	if network == "tcp" { // as package net sets it
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
	}
	var sa unix.Sockaddr
	if at.Addr().Is4() {
		sa = &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	} else {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return err
		}
		sa = &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	}
	return unix.Bind(fd, sa)
}

// listening are the sockets that wait for packets or connections.
func listening(network string) (all []socket, err error) {
	for _, table := range []string{network, network + "6"} {
		f, err := os.Open("/proc/net/" + table)
		if os.IsNotExist(err) {
			continue // IPv6 is off
		}
		if err != nil {
			return nil, err
		}
		found, err := socketsIn(f, network == "tcp")
		f.Close()
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// socketsIn reads a table of the kernel's. The addresses are in the order of the
// host's bytes, in words of four.
func socketsIn(r io.Reader, stream bool) (found []socket, err error) {
	const listens = "0A"
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		// sl local rem st queues tr retransmits uid ...
		words := strings.Fields(lines.Text())
		if len(words) < 8 || !strings.Contains(words[1], ":") || stream && words[3] != listens {
			continue
		}
		host, port, _ := strings.Cut(words[1], ":")
		b, err := hex.DecodeString(host)
		if err != nil || len(b)%4 != 0 {
			continue
		}
		for i := 0; i < len(b); i += 4 {
			binary.BigEndian.PutUint32(b[i:], binary.NativeEndian.Uint32(b[i:]))
		}
		a, ok := netip.AddrFromSlice(b)
		n, err := strconv.ParseUint(port, 16, 16)
		uid, e := strconv.Atoi(words[7])
		if !ok || err != nil || e != nil {
			continue
		}
		found = append(found, socket{netip.AddrPortFrom(a, uint16(n)), uid})
	}
	return found, lines.Err()
}

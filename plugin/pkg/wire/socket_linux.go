package wire

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"firebreakdns.io/firebreak/plugin/pkg/steer"
)

// socketBuffer is the room for packets in each direction, in bytes. The kernel's
// default holds 256 small ones: 5 ms of a burst.
const socketBuffer = 4 << 20

// socket is one of a group's.
type socket struct {
	conn     *net.UDPConn
	raw      syscall.RawConn
	wildcard bool
	dropped  atomic.Uint64 // packets that the kernel had no room for; its own counter
}

// listen opens a socket as CoreDNS opens its own (the two must agree in family
// and options to be in one reuseport group).
func listen(addr string) (*socket, error) {
	sharing := steer.Sharing()
	p, err := sharing.ListenPacket(context.Background(), "udp", addr)
	if err != nil {
		return nil, err
	}
	conn, ok := p.(*net.UDPConn)
	if !ok {
		_ = p.Close()
		return nil, fmt.Errorf("%s is no UDP address", addr)
	}
	s := &socket{conn: conn}
	if s.raw, err = conn.SyscallConn(); err == nil {
		err = s.setOptions()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *socket) setOptions() error {
	local := s.conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr() //nolint:errcheck // a UDP socket's address is one
	s.wildcard = local.IsUnspecified()
	var err error
	control := s.raw.Control(func(fd uintptr) {
		f := int(fd)
		for _, force := range [][2]int{{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}, {unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}} {
			// Beyond the system's limit only with CAP_NET_ADMIN; else as much as it gives.
			if unix.SetsockoptInt(f, unix.SOL_SOCKET, force[0], socketBuffer) != nil {
				_ = unix.SetsockoptInt(f, unix.SOL_SOCKET, force[1], socketBuffer)
			}
		}
		_ = unix.SetsockoptInt(f, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1) // else the metric stays 0
		if !s.wildcard {
			return
		}
		// The answer must come from the address that was asked.
		domain, e := unix.GetsockoptInt(f, unix.SOL_SOCKET, unix.SO_DOMAIN)
		switch {
		case e != nil:
			err = e
		case domain == unix.AF_INET6:
			// Of IPv4 packets too, mapped.
			err = unix.SetsockoptInt(f, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		default:
			err = unix.SetsockoptInt(f, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		}
	})
	if control != nil {
		return control
	}
	return err
}

// room is how many bytes the kernel keeps for received packets.
func (s *socket) room() (n int) {
	_ = s.raw.Control(func(fd uintptr) {
		n, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
	})
	return n
}

// leave makes the kernel give the socket no more packets. What it has queued can
// still be read, and answers still go out. (Closing a reuseport socket would lose
// its queue.)
func (s *socket) leave() {
	var to unix.Sockaddr = &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}
	_ = s.raw.Control(func(fd uintptr) {
		if domain, _ := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); domain == unix.AF_INET6 {
			to = &unix.SockaddrInet6{Port: 9, Addr: [16]byte{15: 1}}
		}
		_ = unix.Connect(int(fd), to)
	})
}

// queued says whether a packet is waiting to be read.
func (s *socket) queued() bool {
	waiting := false
	_ = s.raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} // #nosec G115 -- a descriptor is an int
		n, err := unix.Poll(p, 0)
		waiting = err == nil && n == 1
	})
	return waiting
}

// peer is whom a packet came from, and which of our addresses it came to.
type peer struct {
	s      *socket
	client netip.AddrPort
	source []byte // a control message, or nil
}

// Send implements Peer.
func (p *peer) Send(b []byte) error {
	_, _, err := p.s.conn.WriteMsgUDPAddrPort(b, p.source, p.client)
	return err
}

// LocalAddr implements asker.
func (p *peer) LocalAddr() net.Addr { return p.s.conn.LocalAddr() }

// RemoteAddr implements asker.
func (p *peer) RemoteAddr() net.Addr { return net.UDPAddrFromAddrPort(p.client) }

// Network implements asker.
func (*peer) Network() string { return "udp" }

// sendMore implements asker.
func (p *peer) sendMore(b []byte) error { return p.Send(b) }

// Close implements asker: there is no connection.
func (*peer) Close() error { return nil }

func (*peer) done() {}

// Lengths of control messages on 64-bit Linux; all multiples of 8.
const (
	controlRoom = 128 // for what we asked for, and some more
	cmsgHeader  = unix.SizeofCmsghdr
)

// readControl reads what the kernel says of a packet in b, and leaves in it the
// control message for the answer: the address that was asked as the source. It
// returns that message's length.
func (s *socket) readControl(b []byte) int {
	source := 0
	for off := 0; off+cmsgHeader <= len(b); {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[off]))
		l := int(h.Len) //nolint:unconvert // its type depends on the architecture
		if l < cmsgHeader || off+l > len(b) {
			break
		}
		data := b[off+cmsgHeader : off+l]
		next := off + (l+7)&^7
		switch {
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_RXQ_OVFL && len(data) >= 4:
			s.dropped.Store(uint64(*(*uint32)(unsafe.Pointer(&data[0]))))
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			// Not the interface: the way back may be another one.
			(*unix.Inet4Pktinfo)(unsafe.Pointer(&data[0])).Ifindex = 0
			source = moveFront(b, off, next)
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			info := (*unix.Inet6Pktinfo)(unsafe.Pointer(&data[0]))
			if a := netip.AddrFrom16(info.Addr); !a.IsLinkLocalUnicast() { // whose interface is part of the address
				info.Ifindex = 0
			}
			source = moveFront(b, off, next)
		}
		off = next
	}
	return source
}

// moveFront moves the message at b[off:next] to the front. What stood before has
// been read.
func moveFront(b []byte, off, next int) int {
	return copy(b, b[off:min(next, len(b))])
}

package steer

import (
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Nobody is an index that no socket has: a program that returns it leaves the
// choice to the kernel.
const Nobody = 1<<32 - 1

// Sharing opens sockets that share their address.
func Sharing() net.ListenConfig {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return Control(c, func(fd int) error {
			return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
	}}
	lc.SetMultipathTCP(false) // Go's default for listeners, and the one kind that takes no program
	return lc
}

// Control calls do with a socket's descriptor.
func Control(c syscall.RawConn, do func(fd int) error) error {
	var err error
	if e := c.Control(func(fd uintptr) { err = do(int(fd)) }); e != nil { // #nosec G115 -- a descriptor is an int
		return e
	}
	return err
}

// Attach makes p the program of a socket's group. It sees a packet from behind its
// UDP or TCP header on.
func Attach(fd int, p []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]} // #nosec G115 -- short
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF,
		uintptr(unsafe.Pointer(&prog)), unsafe.Sizeof(prog), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Detach takes the program away from a socket's group.
func Detach(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_REUSEPORT_BPF, 0)
}

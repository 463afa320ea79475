package main

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the echoes answer with: one A record whose owner is the question's name.
var record = [16]byte{0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 192, 0, 2, 1}

const (
	echoBatch = 32
	echoRoom  = 1500
)

// mmsghdr is the kernel's: a message and how much of it there is.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// echoer is one worker of the Go floor, with all the memory it will ever need.
type echoer struct {
	bytes [echoBatch][echoRoom + len(record)]byte
	from  [echoBatch]unix.RawSockaddrInet4
	io    [echoBatch]unix.Iovec
	msgs  [echoBatch]mmsghdr
}

// echo is the floor for a program in Go: the loop of native/echo.c, and nothing
// else. It waits in the runtime's poller: to wait in recvmmsg itself costs more
// at a low rate, where the runtime takes the CPU from a thread that blocks and
// has to find it one again for each packet.
func echo(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: PORT WORKERS")
	}
	workers, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	failed := make(chan error)
	for range workers {
		go func() { failed <- new(echoer).serve("127.0.0.1:" + args[0]) }()
	}
	return <-failed
}

func (e *echoer) serve(addr string) error {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		control := func(fd uintptr) {
			err = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20),
			)
		}
		return errors.Join(c.Control(control), err)
	}}
	pc, err := lc.ListenPacket(context.Background(), "udp4", addr)
	if err != nil {
		return err
	}
	raw, err := pc.(*net.UDPConn).SyscallConn()
	if err != nil {
		return err
	}
	for i := range e.msgs {
		e.io[i].Base = &e.bytes[i][0]
		e.msgs[i].hdr.Iov = &e.io[i]
		e.msgs[i].hdr.Iovlen = 1
		e.msgs[i].hdr.Name = (*byte)(unsafe.Pointer(&e.from[i]))
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		var empty bool
		for failed == nil && !empty {
			empty, failed = e.turn(fd)
		}
		return failed != nil // else: wait until there is something again
	})
	return errors.Join(failed, err)
}

// turn answers one batch, and says whether there is no more. A batch that is not
// full has emptied the queue, and what comes after that wakes the poller again.
func (e *echoer) turn(fd uintptr) (empty bool, err error) {
	for i := range e.msgs {
		e.io[i].Len = echoRoom
		e.msgs[i].hdr.Namelen = unix.SizeofSockaddrInet4
	}
	// Neither call waits, so the runtime need not be told of them.
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&e.msgs)), echoBatch, unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
	case syscall.EAGAIN:
		return true, nil
	case syscall.EINTR:
		return false, nil
	default:
		return false, errno
	}
	for i := range int(n) {
		e.io[i].Len = uint64(answer(e.bytes[i][:], int(e.msgs[i].len)))
	}
	for sent := 0; sent < int(n); {
		k, _, errno := syscall.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&e.msgs[sent])), n-uintptr(sent), unix.MSG_DONTWAIT, 0, 0)
		if errno != 0 || k == 0 {
			k = 1 // what one receiver refuses does not stop the rest
		}
		sent += int(k)
	}
	return n < echoBatch, nil
}

func answer(m []byte, n int) int {
	if n < 12 {
		return n
	}
	m[2], m[3], m[7] = 0x81, 0x80, 1
	return n + copy(m[n:], record[:])
}

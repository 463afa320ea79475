package main

import (
	"errors"
	"fmt"
	"runtime"
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
// else. It waits in the kernel the way the runtime allows, where another
// goroutine may run meanwhile, because a server with anything else to do has to.
func echo(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: PORT WORKERS")
	}
	port, err := strconv.ParseUint(args[0], 10, 16)
	if err != nil {
		return err
	}
	workers, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	failed := make(chan error)
	for range workers {
		go func() { failed <- new(echoer).serve(int(port)) }()
	}
	return <-failed
}

func (e *echoer) serve(port int) error {
	runtime.LockOSThread()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20),
		unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}),
	)
	if err != nil {
		return fmt.Errorf("port %d: %w", port, err)
	}
	for i := range e.msgs {
		e.io[i].Base = &e.bytes[i][0]
		e.msgs[i].hdr.Iov = &e.io[i]
		e.msgs[i].hdr.Iovlen = 1
		e.msgs[i].hdr.Name = (*byte)(unsafe.Pointer(&e.from[i]))
	}
	for {
		for i := range e.msgs {
			e.io[i].Len = echoRoom
			e.msgs[i].hdr.Namelen = unix.SizeofSockaddrInet4
		}
		n, _, errno := syscall.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&e.msgs)), echoBatch, unix.MSG_WAITFORONE, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return errno
		}
		for i := range int(n) {
			e.io[i].Len = uint64(answer(e.bytes[i][:], int(e.msgs[i].len)))
		}
		// It does not wait: a datagram that finds no room is dropped.
		for sent := 0; sent < int(n); {
			k, _, errno := syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&e.msgs[sent])), n-uintptr(sent), 0, 0, 0)
			if errno != 0 || k == 0 {
				k = 1 // what one receiver refuses does not stop the rest
			}
			sent += int(k)
		}
	}
}

func answer(m []byte, n int) int {
	if n < 12 {
		return n
	}
	m[2], m[3], m[7] = 0x81, 0x80, 1
	return n + copy(m[n:], record[:])
}

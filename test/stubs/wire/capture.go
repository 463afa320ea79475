//go:build linux

package wire

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Capture is a packet socket in one network namespace. It takes every packet of
// the namespace's links but loopback.
type Capture struct {
	name    string
	fd      int
	stop    chan struct{}
	done    sync.WaitGroup
	packets []Packet
	err     error
}

// Start begins to capture in a namespace of ip-netns(8).
func Start(namespace string) (*Capture, error) {
	fd, err := openIn(namespace)
	if err != nil {
		return nil, fmt.Errorf("cannot capture in %s: %w", namespace, err)
	}
	c := &Capture{name: namespace, fd: fd, stop: make(chan struct{})}
	c.done.Go(c.read)
	return c, nil
}

// Stop ends the capture and returns what it took, in the order of time. An error
// says that it did not get everything: then nothing can be held to it.
func (c *Capture) Stop() ([]Packet, error) {
	close(c.stop)
	c.done.Wait()
	stats, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	unix.Close(c.fd)
	if err == nil && stats.Drops > 0 {
		err = fmt.Errorf("the capture in %s missed %d packets: the machine is too busy, try again", c.name, stats.Drops)
	}
	return c.packets, errors.Join(c.err, err)
}

// openIn opens the socket on a thread that is in the namespace for that long:
// a socket stays in the namespace in which it was made.
func openIn(namespace string) (fd int, err error) {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return -1, err
	}
	defer home.Close()
	there, err := os.Open("/run/netns/" + namespace)
	if err != nil {
		return -1, err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return -1, err
	}
	defer func() {
		// A thread that cannot go home is not unlocked, so that it ends with its
		// goroutine and nobody else runs on it.
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back == nil {
			runtime.UnlockOSThread()
		} else {
			err = errors.Join(err, back)
		}
	}()
	// All protocols: only such a socket is shown what goes out, too.
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, all)
	if err != nil {
		return -1, err
	}
	wait := unix.NsecToTimeval(int64(100 * time.Millisecond))
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
	)
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (c *Capture) read() {
	buf, oob := make([]byte, 4096), make([]byte, 256)
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		n, nOOB, _, from, err := unix.Recvmsg(c.fd, buf, oob, 0)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			c.err = fmt.Errorf("the capture in %s broke off: %w", c.name, err)
			return
		}
		if link, ok := from.(*unix.SockaddrLinklayer); ok && link.Hatype == unix.ARPHRD_LOOPBACK {
			continue
		}
		at, err := stamp(oob[:nOOB])
		if err != nil {
			c.err = err
			return
		}
		for _, p := range parse(buf[:n]) {
			p.At = at
			c.packets = append(c.packets, p)
		}
	}
}

// stamp is the time at which the kernel handled the packet.
func stamp(oob []byte) (time.Time, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return time.Time{}, err
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})) {
			ts := *(*unix.Timespec)(unsafe.Pointer(&m.Data[0])) // #nosec G103 -- as the kernel lays it out
			return time.Unix(ts.Unix()), nil
		}
	}
	return time.Time{}, errors.New("a packet without the kernel's time stamp")
}

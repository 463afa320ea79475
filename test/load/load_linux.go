// Package load asks a DNS server at a steady rate, whatever it answers, and counts
// what is lost.
package load

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Load asks one question over UDP until it is ended.
type Load struct {
	sent, got, wrong, gap atomic.Int64
	stop                  chan struct{}
	senders, readers      sync.WaitGroup
	conns                 []*net.UDPConn
}

// Start sends packet, each time with another ID, rate times a second to addr from
// as many sockets.
func Start(t testing.TB, addr string, packet []byte, sockets, rate int) *Load {
	t.Helper()
	l := &Load{stop: make(chan struct{})}
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	for range sockets {
		c, err := net.DialUDP("udp", nil, to)
		if err != nil {
			t.Fatal(err)
		}
		if err := room(c); err != nil {
			t.Fatal(err)
		}
		l.conns = append(l.conns, c)
		l.readers.Go(func() { l.read(c) })
		l.senders.Go(func() { l.send(c, append([]byte(nil), packet...), rate/sockets) })
	}
	return l
}

// room has the socket hold what comes while its reader does not run, as far as the
// system lets it.
func room(c *net.UDPConn) error {
	const size = 4 << 20
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) {
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size) != nil { // #nosec G115 -- a descriptor is an int
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, size) // #nosec G115 -- a descriptor is an int
		}
	})
}

func (l *Load) send(c *net.UDPConn, packet []byte, rate int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	began, n := time.Now(), 0
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * float64(rate)); n < due; n++ {
			binary.BigEndian.PutUint16(packet, uint16(n)) // #nosec G115 -- an ID comes again
			if _, err := c.Write(packet); err == nil {
				l.sent.Add(1)
			}
		}
	}
}

func (l *Load) read(c *net.UDPConn) {
	b := make([]byte, 4096)
	last := time.Now()
	for {
		n, err := c.Read(b)
		if err != nil {
			if ne, ok := err.(net.Error); !ok || ne.Timeout() || !l.running() {
				return
			}
			continue // refused; the kernel says so once
		}
		now := time.Now()
		if gap := int64(now.Sub(last)); gap > l.gap.Load() {
			l.gap.Store(gap) // of two sockets at once either will do
		}
		last = now
		if n < 12 || b[2]&0x80 == 0 || b[3]&0xf != 0 || binary.BigEndian.Uint16(b[6:]) != 1 {
			l.wrong.Add(1)
		}
		l.got.Add(1)
	}
}

func (l *Load) running() bool {
	select {
	case <-l.stop:
		return false
	default:
		return true
	}
}

// Sent is how many were sent.
func (l *Load) Sent() int64 { return l.sent.Load() }

// Wrong is how many answers were not one record without an error.
func (l *Load) Wrong() int64 { return l.wrong.Load() }

// Gap is the longest time in which a socket got no answer.
func (l *Load) Gap() time.Duration { return time.Duration(l.gap.Load()) }

// End stops the load, waits a second for what is on its way, and says how many
// queries were lost.
func (l *Load) End() int64 {
	close(l.stop)
	l.senders.Wait()
	for range 100 {
		if l.got.Load() >= l.sent.Load() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.readers.Wait()
	return l.sent.Load() - l.got.Load()
}

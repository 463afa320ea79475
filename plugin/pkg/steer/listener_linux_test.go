package steer

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coredns/coredns/plugin/pkg/reuseport"
)

// stranger is a listener at the same address that is not ours.
func stranger(t *testing.T, addr string) (l net.Listener, taken *atomic.Int64) {
	t.Helper()
	l, err := reuseport.Listen("tcp", addr) // as CoreDNS does, with Go's multipath TCP
	if err != nil {
		t.Skipf("cannot listen at %s: %v", addr, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	taken = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taken.Add(1)
			_ = c.Close()
		}
	}()
	return l, taken
}

// TestConnectionsAreSteered: whoever else listens at the address, before us and
// after, connections come to our listener; when it leaves, to the others.
func TestConnectionsAreSteered(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "127.44.0.7:0", "[::1]:0", "0.0.0.0:0", "[::]:0"} {
		t.Run(at, func(t *testing.T) {
			first, early := stranger(t, at)
			addr := first.Addr().String()
			l, err := Listen(addr)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			_, late := stranger(t, addr)
			var ours atomic.Int64
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					ours.Add(1)
					_ = c.Close()
				}
			}()
			if err := l.Take(nil); err != nil {
				t.Fatal(err)
			}
			if k := l.index.Load(); k != 1 {
				t.Errorf("index %d, want 1: one was there before", k)
			}
			strangers := early.Load() + late.Load()
			const n = 200
			connect(t, addr, n)
			settle(t, func() bool { return ours.Load() == n })
			if got := early.Load() + late.Load() - strangers; got != 0 {
				t.Errorf("%d connections went to strangers", got)
			}
			if err := l.Leave(); err != nil {
				t.Fatal(err)
			}
			connect(t, addr, n)
			settle(t, func() bool { return early.Load()+late.Load()-strangers == n })
			if ours.Load() != n {
				t.Errorf("%d connections came after it had left", ours.Load()-n)
			}
		})
	}
}

func connect(t *testing.T, addr string, n int) {
	t.Helper()
	for range n {
		c, err := net.DialTimeout("tcp", Reach(addr), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
}

func settle(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Second); !is() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if !is() {
		t.Error("connections went elsewhere")
	}
}

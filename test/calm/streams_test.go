package calm_test

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// streams ask over TCP until they are ended: half of the clients with a connection
// for each query, the others with one for all of theirs.
type streams struct {
	asked, good, renewed atomic.Int64
	stop                 chan struct{}
	all                  sync.WaitGroup
}

func (m *streams) String() string {
	return fmt.Sprintf("%d queries, %d answered, %d connections ended between two queries and were opened anew", m.asked.Load(), m.good.Load(), m.renewed.Load())
}

func (m *streams) end() {
	close(m.stop)
	m.all.Wait()
}

func startStreams(t testing.TB, addr string, clients int) *streams {
	m := &streams{stop: make(chan struct{})}
	for i := range clients {
		m.all.Go(func() {
			var kept *dns.Conn
			defer func() {
				if kept != nil {
					_ = kept.Close()
				}
			}()
			for n := 0; ; n++ {
				select {
				case <-m.stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
				q := query(fmt.Sprintf("name%d.test.", n%50))
				m.asked.Add(1)
				c := kept
				if c == nil {
					var err error
					if c, err = dns.DialTimeout("tcp", addr, time.Second); err != nil {
						t.Errorf("no connection: %v", err)
						continue
					}
				}
				_ = c.SetDeadline(time.Now().Add(time.Second))
				err := c.WriteMsg(q)
				var r *dns.Msg
				if err == nil {
					r, err = c.ReadMsg()
				}
				switch b := bad(r, err); {
				case errors.Is(err, syscall.ECONNRESET):
					t.Errorf("client %d: reset", i)
				case b == "":
					m.good.Add(1)
				case kept != nil && err != nil: // it may end between two queries: once more (RFC 7766, 6.2.4)
					m.renewed.Add(1)
					m.asked.Add(-1)
				default:
					t.Errorf("query %d of client %d: %s", n, i, b)
				}
				if kept = c; i%2 == 0 || err != nil {
					kept = nil
					_ = c.Close()
				}
			}
		})
	}
	return m
}

// TestTooManyConnections: who opens more connections than there are descriptors for
// loses its own idle ones. Others are answered, also what upstreams have to be asked
// for, and whoever waits for an answer gets it.
func TestTooManyConnections(t *testing.T) {
	ups, addrs := upstreams(t, 1)
	ups[0].Set("slow.test delay 2s\n* answer 192.0.2.1")
	s := launch(t, freePort(t), cacheOnly+addrs, "name0.test.")
	const descriptors, more = 200, 600
	limit := unix.Rlimit{Cur: descriptors, Max: descriptors}
	if err := unix.Prlimit(s.PID(), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Skip(err)
	}
	waits, err := dns.DialTimeout("tcp", s.addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer waits.Close()
	_ = waits.SetDeadline(time.Now().Add(8 * time.Second))
	if err := waits.WriteMsg(query("slow.test.")); err != nil {
		t.Fatal(err)
	}
	for i := range more {
		c, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%20 != 0 {
			continue
		}
		for _, network := range []string{"udp", "tcp"} {
			r, _, err := askOver(network, s.addr, fmt.Sprintf("%s%d.test.", network, i))
			if b := bad(r, err); b != "" {
				t.Errorf("beside %d connections, over %s: %s", i+1, network, b)
			}
		}
	}
	r, err := waits.ReadMsg()
	if b := bad(r, err); b != "" {
		t.Errorf("who waited was told: %s", b)
	}
}

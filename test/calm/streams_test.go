package calm_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
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

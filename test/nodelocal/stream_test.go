//go:build linux

package nodelocal

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// stream asks an address all the time, over UDP with a new port for each question,
// and notes when it was answered.
type stream struct {
	mu     sync.Mutex
	lost   int           // questions without an answer
	gap    time.Duration // the longest time without an answer
	asked  int
	ending atomic.Bool
	done   chan struct{}
}

// patience is how long a question may take.
const patience = time.Second

// stream begins one, of 200 questions a second at most.
func (l *lab) stream(ns string, at netip.Addr) *stream {
	s := &stream{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_ = within(ns, func() { s.run(at) })
	}()
	return s
}

func (s *stream) run(at netip.Addr) {
	var wg sync.WaitGroup
	defer wg.Wait()
	last := time.Now()
	for !s.ending.Load() {
		// The socket is opened here, in the namespace; the answer is awaited elsewhere.
		c, err := net.DialTimeout("udp", net.JoinHostPort(at.String(), "53"), patience)
		if err != nil {
			s.mu.Lock()
			s.lost++
			s.mu.Unlock()
			continue
		}
		wg.Go(func() {
			defer c.Close()
			m := new(dns.Msg).SetQuestion("who.test.", dns.TypeTXT)
			conn := &dns.Conn{Conn: c}
			_ = conn.SetDeadline(time.Now().Add(patience))
			err := conn.WriteMsg(m)
			if err == nil {
				_, err = conn.ReadMsg()
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.asked++
			if err != nil {
				s.lost++
				return
			}
			now := time.Now()
			s.gap = max(s.gap, now.Sub(last))
			last = now
		})
		time.Sleep(5 * time.Millisecond)
	}
}

// stop ends it, and says how many questions were lost.
func (s *stream) stop() int {
	s.ending.Store(true)
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// longest is the longest time without an answer.
func (s *stream) longest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gap
}

package calm_test

import (
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// asked is one question of a herd, and what came of it.
type asked struct {
	name string
	at   time.Time     // when it was due: who waits to be sent waits as well
	took time.Duration // -1: no answer
	bad  string
	ede  int
	sent bool
}

// herd asks questions at fixed times, whatever the answers do, and sees each
// answer from the moment its question was due.
type herd struct {
	conn  net.Conn
	begin time.Time
	gap   time.Duration
	mu    sync.Mutex
	all   []asked
	stood time.Duration // the longest that the sender was late
	wg    sync.WaitGroup
	over  chan struct{} // everything was sent
}

// newHerd begins to ask n questions, one every gap, from one socket.
func newHerd(t testing.TB, addr string, n int, gap time.Duration, name func(i int) string) *herd {
	t.Helper()
	if n > 1<<16 {
		t.Fatalf("%d questions have not each an ID of their own", n)
	}
	conn, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.UDPConn).SetReadBuffer(4 << 20)
	h := &herd{conn: conn, begin: time.Now(), gap: gap, all: make([]asked, n), over: make(chan struct{})}
	h.wg.Go(h.read)
	go func() {
		defer close(h.over)
		for i := range n {
			due := h.begin.Add(time.Duration(i) * gap)
			time.Sleep(time.Until(due))
			q := query(name(i))
			q.Id = uint16(i)
			b, err := q.Pack()
			if err != nil {
				t.Error(err)
				return
			}
			h.mu.Lock()
			h.stood = max(h.stood, time.Since(due))
			h.all[i] = asked{name: q.Question[0].Name, at: due, took: -1, sent: true}
			h.mu.Unlock()
			if _, err := conn.Write(b); err != nil {
				t.Error(err)
			}
		}
	}()
	return h
}

func (h *herd) read() {
	b := make([]byte, 4096)
	for {
		n, err := h.conn.Read(b)
		if err != nil {
			return
		}
		now := time.Now()
		if n < 12 {
			continue
		}
		r := new(dns.Msg)
		err = r.Unpack(b[:n])
		h.mu.Lock()
		if i := int(binary.BigEndian.Uint16(b)); i < len(h.all) && h.all[i].sent && h.all[i].took < 0 {
			a := &h.all[i]
			a.took, a.bad = now.Sub(a.at), bad(r, err)
			if err == nil {
				a.ede = ede(r)
				if len(r.Question) != 1 || !strings.EqualFold(r.Question[0].Name, a.name) {
					a.bad = "wrong: to another question: " + r.String()
				}
			}
		}
		h.mu.Unlock()
	}
}

// end waits until everything is asked, and at most that long for what is missing.
func (h *herd) end(wait time.Duration) []asked {
	<-h.over
	for until := time.Now().Add(wait); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		h.mu.Lock()
		missing := slices.ContainsFunc(h.all, func(a asked) bool { return a.took < 0 })
		h.mu.Unlock()
		if !missing {
			break
		}
	}
	_ = h.conn.Close()
	h.wg.Wait()
	return h.all
}

// between are the questions that were due in a span after the begin.
func (h *herd) between(from, to time.Duration) []asked {
	first, last := int(from/h.gap), int(to/h.gap)
	return h.all[min(first, len(h.all)):min(last, len(h.all))]
}

// failures are what had no good answer, by what was wrong.
func failures(all []asked) map[string]int {
	found := map[string]int{}
	for i := range all {
		switch {
		case all[i].took < 0:
			found["no answer"]++
		case all[i].bad != "":
			found[all[i].bad]++
		}
	}
	return found
}

// percentile of the times that were taken, unanswered ones first of all.
func percentile(all []asked, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	took := make([]time.Duration, len(all))
	for i := range all {
		if took[i] = all[i].took; took[i] < 0 {
			took[i] = time.Hour
		}
	}
	slices.Sort(took)
	return took[min(len(took)*p/100, len(took)-1)]
}

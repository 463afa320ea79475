package wire_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"
)

const (
	// reloadRate is what the figure is about; how much of it a busy machine makes is
	// printed. With FIREBREAK_SOAK it has to be nine tenths of it.
	reloadRate = 50_000
	// flightMost are as many questions as the server's sockets have room for even if
	// it stands still: what is lost then was not lost for want of a buffer.
	flightMost = 4000
)

// flood asks names at a rate, in batches, from several sockets.
type flood struct {
	sent, got, wrong atomic.Int64
	began            time.Time
	stop             chan struct{}
	senders, readers sync.WaitGroup
	conns            []*net.UDPConn
}

func newFlood(t testing.TB, addr string, names []string, sockets, rate int) *flood {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	packets := make([][]byte, len(names))
	for i, n := range names {
		packets[i] = pack(t, query(n, dns.TypeA))
	}
	f := &flood{stop: make(chan struct{}), began: time.Now()}
	for k := range sockets {
		c, err := net.DialUDP("udp", nil, to)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadBuffer(4 << 20)
		f.conns = append(f.conns, c)
		f.readers.Go(func() { f.read(ipv4.NewPacketConn(c)) })
		f.senders.Go(func() { f.send(t, ipv4.NewPacketConn(c), packets, k, rate/sockets) })
	}
	return f
}

func (f *flood) send(t testing.TB, c *ipv4.PacketConn, packets [][]byte, k, rate int) {
	const batch = 32
	messages := make([]ipv4.Message, batch)
	for i := range messages {
		messages[i].Buffers = [][]byte{make([]byte, 0, 512)}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	began, n := time.Now(), 0
	for {
		select {
		case <-f.stop:
			return
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * float64(rate)); n < due && f.sent.Load()-f.got.Load() < flightMost; {
			size := min(due-n, batch)
			for i := range size {
				b := append(messages[i].Buffers[0][:0], packets[(n+i+k)%len(packets)]...)
				binary.BigEndian.PutUint16(b, uint16(n+i))
				messages[i].Buffers[0] = b
			}
			// Counted before: an answer may be faster than we are.
			f.sent.Add(int64(size))
			for out := 0; out < size; {
				done, err := c.WriteBatch(messages[out:size], 0)
				if err != nil {
					f.sent.Add(int64(out - size))
					t.Error(err)
					return
				}
				out += done
			}
			n += size
		}
	}
}

func (f *flood) read(c *ipv4.PacketConn) {
	messages := make([]ipv4.Message, 64)
	for i := range messages {
		messages[i].Buffers = [][]byte{make([]byte, 512)}
	}
	for {
		n, err := c.ReadBatch(messages, 0)
		if err != nil {
			return
		}
		for i := range n {
			b := messages[i].Buffers[0][:messages[i].N]
			if len(b) < 12 || b[2]&0x80 == 0 || b[3]&0xf != 0 || binary.BigEndian.Uint16(b[6:]) != 1 {
				f.wrong.Add(1)
			}
		}
		f.got.Add(int64(n))
	}
}

// end stops the flood and says how many queries were lost, and how many a second
// there were.
func (f *flood) end() (lost int64, rate float64) {
	close(f.stop)
	f.senders.Wait()
	rate = float64(f.sent.Load()) / time.Since(f.began).Seconds()
	for range 300 {
		if f.got.Load() >= f.sent.Load() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.readers.Wait()
	return f.sent.Load() - f.got.Load(), rate
}

// TestReloadLosesNothing: Corefiles are reloaded, one of them a broken one, at
// 50,000 queries a second: every query is answered, and from the cache.
func TestReloadLosesNothing(t *testing.T) {
	up := newUpstream(t)
	corefile := ".:PORT {\nbind 127.0.0.1\nclients\ndrill\nprometheus 127.0.0.1:0\nerrors\nnodecache\nforward . " + up.addr + "\n}\n"
	inst, port := start(t, corefile)
	addr := "127.0.0.1:" + port
	onWire(t, addr)
	c := newClient(t)
	names := make([]string, 200)
	for i := range names {
		names[i] = fmt.Sprintf("n%d.example.", i)
		if b := c.ask(addr, pack(t, query(names[i], dns.TypeA)), 2*time.Second); b == nil {
			t.Fatal("no answer")
		}
	}
	asked := up.asked.Load()
	f := newFlood(t, addr, names, 4, reloadRate)
	for i := range 4 {
		time.Sleep(400 * time.Millisecond)
		changed := strings.ReplaceAll(corefile, "PORT", port)
		if i%2 == 0 {
			changed = strings.Replace(changed, "errors", "errors {\nconsolidate 5m \"x\"\n}", 1)
		}
		reload(t, inst, changed)
	}
	// One that fails changes nothing.
	at := latest[inst]
	if _, err := at.Restart(input(strings.ReplaceAll(corefile, "PORT", port) + "broken.example:" + port + " {\nbind 127.0.0.1\nbroken\n}\n")); err == nil {
		t.Fatal("the reload did not fail")
	}
	time.Sleep(400 * time.Millisecond)
	lost, rate := f.end()
	t.Logf("%d queries, %.0f a second: %d lost, %d answered wrongly", f.sent.Load(), rate, lost, f.wrong.Load())
	if lost != 0 || f.wrong.Load() != 0 {
		t.Errorf("of %d queries %d were lost and %d answered wrongly", f.sent.Load(), lost, f.wrong.Load())
	}
	if n := up.asked.Load() - asked; n > 3 {
		t.Errorf("the upstream was asked %d times: a reload emptied the cache", n)
	}
	least := 5000.0
	if os.Getenv("FIREBREAK_SOAK") != "" {
		least = 0.9 * reloadRate
	}
	if rate < least {
		t.Errorf("only %.0f queries a second, want %.0f: it says nothing", rate, least)
	}
}

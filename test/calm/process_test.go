package calm_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/bench/program"
)

// process is the server as a process of its own.
type process struct {
	*program.Process
	addr    string
	log     string
	started time.Duration // from exec to the first answer
}

// launch starts one with these plugins at a port, and waits until it answers for
// probe.
func launch(t testing.TB, port, plugins, probe string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	corefile := filepath.Join(dir, "Corefile")
	if err := os.WriteFile(corefile, []byte(".:"+port+" {\nbind 127.0.0.1\n"+plugins+"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &process{addr: "127.0.0.1:" + port, log: filepath.Join(dir, "log")}
	if p.Process, err = program.Start(program.Spec{Args: []string{self}, Env: []string{corefileVariable + "=" + corefile}, Log: p.log, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Log(program.Tail(p.log, 4096))
		}
	})
	if p.started, err = program.WaitDNS(p.Process, p.addr, probe, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	return p
}

// quickUpstream answers everything over UDP for little CPU: names that begin with
// nx do not exist, all others have the address 192.0.2.1. hot are the questions
// for names that begin so.
func quickUpstream(t testing.TB) (addr string, hot *atomic.Int64) {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadBuffer(4 << 20)
	hot = new(atomic.Int64)
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = conn.Close(); wg.Wait() })
	wg.Go(func() {
		b := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if bytes.HasPrefix(b[min(13, n):n], []byte("hot")) {
				hot.Add(1)
			}
			if out := quickAnswer(b[:n]); out != nil {
				_, _ = conn.WriteToUDPAddrPort(out, from)
			}
		}
	})
	return conn.LocalAddr().String(), hot
}

// quickAnswer turns a query into its answer, without its EDNS.
func quickAnswer(b []byte) []byte {
	end := 12
	for end < len(b) && b[end] != 0 {
		end += 1 + int(b[end])
	}
	if end += 5; end > len(b) {
		return nil
	}
	exists := b[13]|0x20 != 'n' || b[14]|0x20 != 'x'
	out := append(make([]byte, 0, end+64), b[:end]...)
	out[2], out[3] = 0x84|b[2]&1, 0x80
	copy(out[6:], []byte{0, 1, 0, 0, 0, 0})
	if exists {
		return append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 192, 0, 2, 1)
	}
	out[3] |= 3
	out[7], out[9] = 0, 1
	out = append(out, 0, 0, 6, 0, 1, 0, 0, 0x0e, 0x10, 0, 22, 0, 0)
	for _, v := range []uint32{1, 3600, 600, 86400, 3600} {
		out = binary.BigEndian.AppendUint32(out, v)
	}
	return out
}

// many asks n names once each, with so many at a time, until it is told to stop.
// good are those that got the code they should, lost those without an answer.
type many struct{ asked, good, lost, wrong atomic.Int64 }

func (m *many) ask(t testing.TB, addr string, n, workers int, name func(i int) string, stop <-chan struct{}) {
	t.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			conn, err := net.Dial("udp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			b := make([]byte, 2048)
			for {
				select {
				case <-stop:
					return
				default:
				}
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				q := rawQuery(uint16(i), name(i))
				m.asked.Add(1)
				_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
				if _, err := conn.Write(q); err != nil {
					m.lost.Add(1)
					continue
				}
				m.count(conn, b, q, strings.HasPrefix(name(i), "nx"))
			}
		})
	}
	wg.Wait()
}

// count reads the answer to q.
func (m *many) count(conn net.Conn, b, q []byte, denied bool) {
	for {
		n, err := conn.Read(b)
		switch {
		case err != nil:
			m.lost.Add(1)
		case n < len(q) || b[0] != q[0] || b[1] != q[1]:
			continue // a late one
		case !denied && b[3]&0xf == 0 && b[7] == 1, denied && b[3]&0xf == 3 && b[7] == 0:
			m.good.Add(1)
		default:
			m.wrong.Add(1)
		}
		return
	}
}

func (m *many) String() string {
	return fmt.Sprintf("%d asked, %d good, %d wrong, %d lost", m.asked.Load(), m.good.Load(), m.wrong.Load(), m.lost.Load())
}

// rawQuery is a query for an address, without EDNS.
func rawQuery(id uint16, name string) []byte {
	b := append(make([]byte, 0, 64), byte(id>>8), byte(id), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(b, 0, 0, 1, 0, 1)
}

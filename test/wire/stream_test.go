package wire_test

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/wire"
)

// TestSameAnswersOverTCP sends the corpus over TCP to a server that takes its
// connections itself, and to one where CoreDNS does.
func TestSameAnswersOverTCP(t *testing.T) {
	l := &layouts[0]
	up := newUpstream(t)
	_, ours := start(t, l.corefile(up.addr, cached+"clients\ndrill\n"))
	_, stock := start(t, l.corefile(up.addr, cached+"clients\ndrill\nrewrite name exact rewritten.invalid other.invalid\n"))
	addr := func(port string) string { return strings.Replace(l.group, "PORT", port, 1) }
	onWire(t, addr(ours))
	if wire.Find(addr(stock)) != nil {
		t.Fatal("the server to compare with has sockets of ours")
	}
	bad := 0
	for i, packet := range corpus(t, rand.New(rand.NewPCG(3, 4))) { // #nosec G404 -- repeatable
		if len(packet) > 65535 {
			continue
		}
		wait := 2 * time.Second
		if !answerable(packet) {
			wait = 30 * time.Millisecond
		}
		askStream(t, addr(ours), packet, wait) // the first one may be the miss
		askStream(t, addr(stock), packet, wait)
		a, b := askStream(t, addr(ours), packet, wait), askStream(t, addr(stock), packet, wait)
		if why := differ(a, b); why != "" {
			t.Errorf("packet %d: %x\n%s\nours:  %x\nstock: %x", i, packet, why, a, b)
			if bad++; bad > 5 {
				return
			}
		}
	}
	if n := wire.Find(addr(ours)).Stats().Accepted; n < 100 {
		t.Errorf("only %d connections were ours: the comparison is worth nothing", n)
	}
}

// askStream asks on a connection of its own; nil: no answer.
func askStream(t *testing.T, addr string, packet []byte, wait time.Duration) []byte {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(wait))
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)); err != nil {
		return nil
	}
	var n [2]byte
	if _, err := io.ReadFull(c, n[:]); err != nil {
		return nil
	}
	b := make([]byte, binary.BigEndian.Uint16(n[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		return nil
	}
	return b
}

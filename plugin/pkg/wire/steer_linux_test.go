package wire

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/coredns/coredns/core/dnsserver"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// echo answers every packet with its own content, and counts.
type echo struct{ n atomic.Int64 }

func (e *echo) NewWorker() Worker { return e }

func (e *echo) Respond(b *Batch) {
	for i := range b.Packets {
		if p := &b.Packets[i]; p.Len > 0 {
			p.Buf[2] |= 0x80
			p.Verdict = Send
			e.n.Add(1)
		}
	}
}

func steered(t *testing.T, g *Group) {
	t.Helper()
	for range 300 {
		if g.Steered() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("not steered")
}

func ask(t *testing.T, addr string, n int) (got int) {
	t.Helper()
	c, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range n {
		if _, err := c.Write([]byte{0, byte(i), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1}); err != nil {
			continue
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := c.Read(make([]byte, 512)); err == nil {
			got++
		}
	}
	return got
}

// TestGenerations has two groups at one address, as two processes have at an
// upgrade: the younger one steers all packets to itself, wherever its sockets are,
// and when either ends nothing is lost.
func TestGenerations(t *testing.T) {
	addr := "127.0.0.1:" + freePort(t)
	old, err := open(addr, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	oldEcho, youngEcho := &echo{}, &echo{}
	old.Use(oldEcho, &dnsserver.Server{})
	steered(t, old)
	if got := ask(t, addr, 50); got != 50 || oldEcho.n.Load() != 50 {
		t.Fatalf("alone: %d answers, %d of them by the old one", got, oldEcho.n.Load())
	}
	young, err := open(addr, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	young.Use(youngEcho, &dnsserver.Server{})
	steered(t, young)
	if got := ask(t, addr, 50); got != 50 || youngEcho.n.Load() != 50 {
		t.Errorf("both: %d answers, %d of them by the young one", got, youngEcho.n.Load())
	}
	if !old.steering.yields(time.Now()) {
		t.Error("the old one does not yield")
	}
	old.close()
	if got := ask(t, addr, 50); got != 50 {
		t.Errorf("the old one ended: %d of 50 answers", got)
	}
	young.close()
}

// TestHeldBack: while a younger group is held back, all packets go on going to the
// older one; also when it ends before it is released.
func TestHeldBack(t *testing.T) {
	addr := "127.0.0.1:" + freePort(t)
	old, err := open(addr, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	oldEcho := &echo{}
	old.Use(oldEcho, &dnsserver.Server{})
	defer old.close()
	steered(t, old)
	HoldBack()
	defer Release()
	asked := int64(0)
	onlyOld := func(when string) {
		t.Helper()
		asked += 50
		if got := ask(t, addr, 50); got != 50 || oldEcho.n.Load() != asked {
			t.Errorf("%s: %d answers, and by now %d by the old one of %d", when, got, oldEcho.n.Load(), asked)
		}
	}
	for _, released := range []bool{false, true} {
		young, err := open(addr, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		onlyOld("opened")
		youngEcho := &echo{}
		young.Use(youngEcho, &dnsserver.Server{})
		time.Sleep(50 * time.Millisecond)
		onlyOld("held back")
		if released {
			Release()
			steered(t, young)
			if got := ask(t, addr, 50); got != 50 || youngEcho.n.Load() != 50 {
				t.Errorf("released: %d answers, %d of them by the young one", got, youngEcho.n.Load())
			}
		}
		young.close()
		if !released {
			onlyOld("ended")
		}
	}
}

// TestCloseAnswersWhatIsQueued closes a group whose sockets have packets waiting.
func TestCloseAnswersWhatIsQueued(t *testing.T) {
	addr := "127.0.0.1:" + freePort(t)
	g, err := open(addr, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n = 100
	for i := range n {
		if _, err := c.Write([]byte{0, byte(i), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1}); err != nil {
			t.Fatal(err)
		}
	}
	g.Use(&echo{}, &dnsserver.Server{})
	g.close()
	got := 0
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	for got < n {
		if _, err := c.Read(make([]byte, 512)); err != nil {
			break
		}
		got++
	}
	if got != n {
		t.Errorf("%d of %d queued packets were answered", got, n)
	}
}

// TestSteerProgram runs the programs in a virtual machine.
func TestSteerProgram(t *testing.T) {
	const nonce = 0x0123456789abcdef
	run := func(index []int, packet []byte) int {
		var raw []bpf.RawInstruction
		for _, f := range steerProgram(nonce, index) {
			raw = append(raw, bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K})
		}
		all, ok := bpf.Disassemble(raw)
		if !ok {
			t.Fatal("not a program")
		}
		vm, err := bpf.NewVM(all)
		if err != nil {
			t.Fatal(err)
		}
		n, err := vm.Run(packet)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	queryOf := func(id uint16) []byte { return append([]byte{byte(id >> 8), byte(id), 1, 0}, make([]byte, 28)...) }
	for id := range uint16(100) {
		if got := run([]int{7}, queryOf(id)); got != 7 {
			t.Fatalf("one socket: %d", got)
		}
		if got, want := run([]int{5, 2, 9}, queryOf(id)), []int{5, 2, 9}[id%3]; got != want {
			t.Fatalf("ID %d of three sockets: %d, want %d", id, got, want)
		}
		if got := uint32(run(nil, queryOf(id))); got != 1<<32-1 {
			t.Fatalf("no socket: %d", got)
		}
	}
	for k := range uint32(100) {
		if got := run([]int{1, 2}, probe{nonce: nonce, index: k}.packet()); got != int(k) {
			t.Fatalf("probe for %d: %d", k, got)
		}
		// A stranger's probe is a packet like any other.
		if got := run([]int{3}, probe{nonce: nonce + 1, index: k}.packet()); got != 3 {
			t.Fatalf("a stranger's probe: %d", got)
		}
		if got := run([]int{3}, probe{nonce: nonce ^ 1<<40, index: k}.packet()); got != 3 {
			t.Fatalf("a stranger's probe: %d", got)
		}
	}
	for n := range 32 { // short ones
		p := make([]byte, n)
		if n > 2 {
			p[2] = 0x80
		}
		if got := run([]int{4}, p); n >= 4 && got != 4 {
			t.Errorf("%d bytes: %d", n, got)
		}
	}
}

func TestReadControl(t *testing.T) {
	message := func(level, kind int32, data []byte) []byte {
		b := make([]byte, unix.CmsgSpace(len(data)))
		h := &unix.Cmsghdr{Level: level, Type: kind}
		h.SetLen(unix.CmsgLen(len(data)))
		copy(b, (*[unix.SizeofCmsghdr]byte)(unsafe.Pointer(h))[:])
		copy(b[unix.CmsgLen(0):], data)
		return b
	}
	drops := message(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, []byte{7, 0, 0, 0})
	v4 := message(unix.IPPROTO_IP, unix.IP_PKTINFO, []byte{9, 0, 0, 0, 127, 0, 0, 2, 127, 0, 0, 2})
	info6 := append(netip.MustParseAddr("2001:db8::7").AsSlice(), 9, 0, 0, 0)
	v6 := message(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, info6)
	local := message(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, append(netip.MustParseAddr("fe80::1").AsSlice(), 9, 0, 0, 0))

	s := &socket{}
	b := append(append([]byte(nil), drops...), v4...)
	if n := s.readControl(b); n != len(v4) || b[16] != 0 || b[20] != 127 || b[23] != 2 || s.dropped.Load() != 7 {
		t.Errorf("IPv4: %d %x", n, b)
	}
	b = append(append([]byte(nil), v6...), drops...)
	if n := s.readControl(b); n != len(v6) || b[16] != 0x20 || b[32] != 0 {
		t.Errorf("IPv6: %d %x", n, b)
	}
	b = append([]byte(nil), local...)
	if n := s.readControl(b); n != len(local) || b[32] != 9 {
		t.Errorf("link-local: the interface is part of the address: %d %x", n, b)
	}
	for n := range len(drops) + len(v4) { // cut off anywhere
		s.readControl(append(append([]byte(nil), drops...), v4...)[:n])
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	for range 50 { // a group listens over both
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", c.LocalAddr().String())
		_ = c.Close()
		if err != nil {
			continue
		}
		_ = l.Close()
		_, port, _ := net.SplitHostPort(c.LocalAddr().String())
		return port
	}
	t.Fatal("no port is free")
	return ""
}

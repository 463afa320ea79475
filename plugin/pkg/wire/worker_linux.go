package wire

import (
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batchSize is how many packets are read and sent at once. More gains nothing:
// by then the kernel's work per packet is all that is left.
const batchSize = 32

// mmsghdr is the kernel's struct mmsghdr on 64-bit machines.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// worker serves one socket from one goroutine. All that a packet needs is
// allocated with it.
type worker struct {
	g     *Group
	index int
	s     *socket

	of     *target // whose engine this is
	engine Worker

	in, out []mmsghdr
	iov     []unix.Iovec
	names   []unix.RawSockaddrInet6
	control []byte
	batch   Batch
	packets []Packet
	spare   Query // for what has no room to wait
}

func newWorker(g *Group, index int, s *socket) *worker {
	w := &worker{
		g: g, index: index, s: s,
		in:      make([]mmsghdr, batchSize),
		out:     make([]mmsghdr, batchSize),
		iov:     make([]unix.Iovec, batchSize),
		names:   make([]unix.RawSockaddrInet6, batchSize),
		control: make([]byte, batchSize*controlRoom),
		packets: make([]Packet, batchSize),
	}
	buf := make([]byte, batchSize*MaxAnswer)
	for i := range w.in {
		w.packets[i].Buf = buf[i*MaxAnswer : (i+1)*MaxAnswer : (i+1)*MaxAnswer]
		w.iov[i].Base = &w.packets[i].Buf[0]
		h := &w.in[i].hdr
		h.Iov, h.Iovlen = &w.iov[i], 1
		h.Name = (*byte)(unsafe.Pointer(&w.names[i]))
		h.Control = &w.control[i*controlRoom]
		w.rearm(i)
	}
	w.batch.peer = func(i int) Peer { return w.peer(i) }
	return w
}

// rearm makes slot i ready for the next packet.
func (w *worker) rearm(i int) {
	w.iov[i].SetLen(maxQuery)
	w.in[i].hdr.Namelen = unix.SizeofSockaddrInet6
	w.in[i].hdr.SetControllen(controlRoom)
}

// run serves until the socket is closed.
//
// It waits through Go's poller and never leaves the poller's callback: what is
// reported while a batch is handled is remembered there, so that it need not ask
// the kernel once more for what is not there. At 5,000 packets a second, where
// each comes alone and waking up is the cost, that is 15 to 25 % less CPU than
// asking again; blocking in recvmmsg, on a thread of its own or not, costs two to
// three times as much, because the scheduler then hands its processor on and
// takes it back for every packet.
func (w *worker) run() {
	_ = w.s.raw.Read(func(fd uintptr) bool {
		for {
			n, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&w.in[0])), batchSize, unix.MSG_DONTWAIT, 0, 0)
			if errno == unix.EINTR {
				continue
			}
			if errno != 0 { // nothing there; or an error of an earlier answer (ECONNREFUSED), reported once
				if errno == unix.EAGAIN {
					return false
				}
				continue
			}
			w.handle(fd, int(n))
			if n < batchSize {
				return false // it was all that there was: wait
			}
		}
	})
}

// handle answers the first n packets.
func (w *worker) handle(fd uintptr, n int) {
	t := w.g.target.Load()
	if t != w.of {
		w.of, w.engine = t, nil
		if t != nil && t.engine != nil {
			w.engine = t.engine.NewWorker()
		}
	}
	live := 0
	for i := range n {
		p := &w.packets[i]
		p.Len = int(w.in[i].len)
		p.Verdict = Slow
		p.Addr, p.Port = addrOf(&w.names[i])
		source := 0
		if c := int(w.in[i].hdr.Controllen); c > 0 { //nolint:unconvert // its type depends on the architecture
			source = w.s.readControl(w.control[i*controlRoom:][:c])
		}
		w.in[i].hdr.SetControllen(source)
		if isProbe(p.Buf[:p.Len]) {
			w.g.steering.seen(w.index, readProbe(p.Buf), time.Now())
			p.Len = 0 // not a header's length: nobody answers
		} else {
			live++
		}
	}
	if w.engine != nil && live > 0 {
		w.batch.Packets = w.packets[:n]
		w.engine.Respond(&w.batch)
	}
	k := 0
	for i := range n {
		p := &w.packets[i]
		switch p.Verdict {
		case Send:
			w.answer(i, &k)
		case Slow:
			if p.Len >= HeaderLen && !w.slow(i, t) {
				if p.Len = w.overflow(p); p.Len > 0 {
					w.answer(i, &k)
				}
			}
		}
	}
	if k > 0 {
		w.send(fd, k)
	}
	for i := range n {
		w.rearm(i)
	}
}

// answer puts slot i's answer among those to be sent.
func (w *worker) answer(i int, k *int) {
	w.iov[i].SetLen(w.packets[i].Len)
	w.out[*k] = w.in[i]
	*k++
}

// send sends the first k answers. One that cannot be sent (no room in the
// socket, a client that is gone) is dropped, as the network might have.
func (w *worker) send(fd uintptr, k int) {
	for at := 0; at < k; {
		n, _, errno := syscall.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&w.out[at])), uintptr(k-at), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			w.g.unsent.Add(1)
			at++
		default:
			at += int(n)
		}
	}
}

// overflow answers a packet for which nobody is free: at once, so that the client
// asks another server instead of waiting for this one.
func (w *worker) overflow(p *Packet) int {
	w.g.overflow.Add(1)
	return refuse(p.Buf, p.Len, &w.spare)
}

// refuse turns the query in the first n bytes of b into the answer that too many
// wait. It returns that one's length; 0 if it is no plain query. b has room for
// MaxAnswer bytes, and q is for it to use.
func refuse(b []byte, n int, q *Query) int {
	if !q.Parse(b[:n]) {
		return 0
	}
	return PutError(b, q, rcodeServFail, q.Size, overflowReason)
}

const rcodeServFail = 2

// overflowReason is EDE 0 (other): too many wait.
var overflowReason = AppendEDE(nil, 0, "too many queries are waiting")

// peer copies whom slot i's packet came from.
func (w *worker) peer(i int) *peer {
	p := &peer{s: w.s, client: netip.AddrPortFrom(remoteOf(&w.names[i]))}
	if n := int(w.in[i].hdr.Controllen); n > 0 { //nolint:unconvert // its type depends on the architecture
		p.source = append([]byte(nil), w.control[i*controlRoom:][:n]...)
	}
	return p
}

// slow hands slot i's packet to CoreDNS. It says false if too many are waiting
// there; while nobody serves yet, the packet is lost, as it would have been.
func (w *worker) slow(i int, t *target) bool {
	if t == nil || t.server == nil {
		return true
	}
	j := newJob()
	j.packet = append(j.packet[:0], w.packets[i].Buf[:w.packets[i].Len]...)
	j.from = w.peer(i)
	j.to = t
	if w.g.pool.run(j) {
		return true
	}
	j.free()
	return false
}

// addrOf is a client's address as the clients plugin has it: IPv4 in IPv6 is
// IPv4, and there is no zone.
func addrOf(sa *unix.RawSockaddrInet6) (netip.Addr, uint16) {
	if sa.Family == unix.AF_INET {
		sa4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		return netip.AddrFrom4(sa4.Addr), swap(sa4.Port)
	}
	return netip.AddrFrom16(sa.Addr).Unmap(), swap(sa.Port)
}

// remoteOf is a client's address as package net has it, to answer to.
func remoteOf(sa *unix.RawSockaddrInet6) (netip.Addr, uint16) {
	if sa.Family == unix.AF_INET {
		return addrOf(sa)
	}
	a := netip.AddrFrom16(sa.Addr)
	if sa.Scope_id != 0 {
		a = a.WithZone(zoneName(sa.Scope_id))
	}
	return a, swap(sa.Port)
}

// swap turns a port from the order of the network into the machine's.
func swap(p uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(&p))
	return uint16(b[0])<<8 | uint16(b[1])
}

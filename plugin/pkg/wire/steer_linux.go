package wire

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"firebreakdns.io/firebreak/plugin/pkg/steer"
)

// The kernel spreads packets over all sockets of an address, CoreDNS's among
// them, by a hash of the client's address. A program of ours on the reuseport
// group (SO_ATTACH_REUSEPORT_CBPF, no privilege needed) gives every packet to one
// of our sockets instead, by the DNS ID, so that one busy client is spread too.
//
// The program has to name a socket by its index in the group, which depends on
// who else is in it: another process of the same user at an upgrade, with sockets
// of its own. So the indexes are found by probes: packets that ask for the index
// they carry, and that nobody but us reads (QR is set). All else is steered as
// before meanwhile: never to a socket of which we do not know that it is ours.
//
// Of several processes, the one that began last steers. A probe says when its
// sender began; who sees one of a younger process leaves the steering alone for a
// while. If the group's program names indexes that are gone, the kernel falls
// back to its hash, which every socket of the group can answer.

const (
	// maxGroup is how many sockets a group may have for ours to be found.
	maxGroup = 128
	// probeWait is how long a probe may take. It goes over loopback or through the
	// local stack; a busy worker gets to it with its next batch.
	probeWait = 250 * time.Millisecond
	// yieldFor is how long a probe of a younger process keeps the older ones from
	// steering; the younger one probes again well within.
	yieldFor    = 30 * time.Second
	probeAgain  = 10 * time.Second
	probeLength = 32
)

// probeMark begins a probe: an ID, QR set, no counts.
var probeMark = [8]byte{0x46, 0x42, 0x80, 0x00, 0, 0, 0, 0}

// probe is what stands behind the mark: a random number that belongs to one
// group of one process, when that process began, and the index asked for.
type probe struct {
	nonce uint64
	began int64 // Unix ns
	index uint32
}

func (p probe) packet() []byte {
	b := make([]byte, probeLength)
	copy(b, probeMark[:])
	binary.BigEndian.PutUint64(b[8:], p.nonce)
	binary.BigEndian.PutUint64(b[16:], uint64(p.began)) // #nosec G115 -- the bits
	binary.BigEndian.PutUint32(b[24:], p.index)
	return b
}

// isProbe is cheap for what is none.
func isProbe(b []byte) bool {
	return len(b) == probeLength && b[2] == 0x80 && [8]byte(b) == probeMark
}

func readProbe(b []byte) probe {
	return probe{
		nonce: binary.BigEndian.Uint64(b[8:]),
		began: int64(binary.BigEndian.Uint64(b[16:])), // #nosec G115 -- the bits
		index: binary.BigEndian.Uint32(b[24:]),
	}
}

// steering is a group's.
type steering struct {
	addr    string
	sockets []*socket
	nonce   uint64
	began   int64

	yielded atomic.Int64 // until when a younger process steers, Unix ns
	shared  atomic.Bool  // others are in the group

	mu    sync.Mutex
	index []int // of our sockets; nil: not known
	found chan [2]int
}

func newSteering(addr string, sockets []*socket, began int64) *steering {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return &steering{
		addr:    addr,
		sockets: sockets,
		nonce:   binary.BigEndian.Uint64(b[:]),
		began:   began,
		found:   make(chan [2]int, maxGroup),
	}
}

// seen is called with every probe that socket i of the group gets.
func (s *steering) seen(i int, p probe, now time.Time) {
	if p.nonce == s.nonce {
		select {
		case s.found <- [2]int{i, int(p.index)}:
		default:
		}
		return
	}
	s.shared.Store(true)
	if p.began > s.began {
		s.yielded.Store(now.Add(yieldFor).UnixNano())
	}
}

// yields says whether a younger process steers.
func (s *steering) yields(now time.Time) bool { return s.yielded.Load() > now.UnixNano() }

// find finds our sockets' indexes, and steers to them.
func (s *steering) find() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.found) > 0 { // late ones of the last time
		<-s.found
	}
	if err := s.attach(steerProgram(s.nonce, s.index)); err != nil {
		return err
	}
	conn, err := net.Dial("udp", steer.Reach(s.addr))
	if err != nil {
		return err
	}
	defer conn.Close()

	// Where we are alone our indexes are the first ones, so those are tried first.
	index := make([]int, len(s.sockets))
	for i := range index {
		index[i] = -1
	}
	missing := len(index)
	for lo, n := 0, len(index); lo < maxGroup && missing > 0; lo, n = lo+n, n*2 {
		hi := min(lo+n, maxGroup)
		for k := lo; k < hi; k++ {
			// #nosec G115 -- below maxGroup
			if _, err := conn.Write(probe{nonce: s.nonce, began: s.began, index: uint32(k)}.packet()); err != nil {
				return err
			}
		}
		wait := time.NewTimer(probeWait)
		for answers := hi - lo; answers > 0 && missing > 0; {
			select {
			case f := <-s.found:
				answers--
				if index[f[0]] < 0 {
					index[f[0]] = f[1]
					missing--
				}
			case <-wait.C:
				answers = 0
			}
		}
		wait.Stop()
	}
	if missing > 0 {
		return fmt.Errorf("%d of our %d sockets did not get a probe", missing, len(index))
	}
	for _, k := range index {
		if k >= len(index) {
			s.shared.Store(true)
		}
	}
	s.index = index
	return s.attach(steerProgram(s.nonce, index))
}

// steerProgram gives a probe of ours to the index that it asks for, and all else
// to one of the sockets at the indexes given, by the DNS ID. Without any it
// leaves the choice to the kernel. A program sees the packet from behind the UDP
// header.
func steerProgram(nonce uint64, index []int) []unix.SockFilter {
	const (
		loadHalf = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
		loadWord = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret      = unix.BPF_RET | unix.BPF_K
	)
	// A load beyond the packet's end would end the program with index 0, so the
	// length is looked at before the words of a probe are.
	p := []unix.SockFilter{
		{Code: loadHalf, K: 2},
		{Code: equal, K: 0x8000, Jf: 8}, // no answer: no probe
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_LEN},
		{Code: equal, K: probeLength, Jf: 6},
		{Code: loadWord, K: 8},
		{Code: equal, K: uint32(nonce >> 32), Jf: 4}, // #nosec G115 -- its halves
		{Code: loadWord, K: 12},
		{Code: equal, K: uint32(nonce & 0xffffffff), Jf: 2}, // #nosec G115 -- its halves
		{Code: loadWord, K: 24},
		{Code: unix.BPF_RET | unix.BPF_A},
	}
	switch len(index) {
	case 0:
		return append(p, unix.SockFilter{Code: ret, K: steer.Nobody})
	case 1:
		return append(p, unix.SockFilter{Code: ret, K: uint32(index[0])}) // #nosec G115 -- below maxGroup
	}
	p = append(p,
		unix.SockFilter{Code: loadHalf, K: 0},
		unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: uint32(len(index))}) // #nosec G115 -- few
	for i, k := range index {
		p = append(p,
			unix.SockFilter{Code: equal, K: uint32(i), Jf: 1}, // #nosec G115 -- few
			unix.SockFilter{Code: ret, K: uint32(k)})          // #nosec G115 -- below maxGroup
	}
	return append(p, unix.SockFilter{Code: ret, K: steer.Nobody})
}

// attach makes p the group's program.
func (s *steering) attach(p []unix.SockFilter) error {
	return s.control("steer", func(fd int) error { return steer.Attach(fd, p) })
}

// detach leaves the choice to the kernel, unless a younger process has taken it.
func (s *steering) detach(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.yields(now) {
		return
	}
	_ = s.control("stop steering", steer.Detach)
}

func (s *steering) control(what string, do func(fd int) error) error {
	if err := steer.Control(s.sockets[0].raw, do); err != nil {
		return fmt.Errorf("cannot %s %s: %w", what, s.addr, err)
	}
	return nil
}

package wire

import "net/netip"

// Verdict is what becomes of a packet.
type Verdict uint8

const (
	Slow   Verdict = iota // hand it to CoreDNS
	Send                  // Buf[:Len] is the answer
	Silent                // no answer: it is drilled
	Held                  // the engine answers it later, through Batch.Peer
)

// MaxAnswer is the room for a packet and for its answer, in bytes. A longer
// answer goes the slow way.
const MaxAnswer = 4096

// maxQuery is how much of a query is read, as CoreDNS does: a longer one is cut
// off and found malformed there.
const maxQuery = 512

// Packet is one datagram of a batch.
type Packet struct {
	Buf     []byte // MaxAnswer long
	Len     int    // of what stands in it
	Addr    netip.Addr
	Port    uint16
	Verdict Verdict
}

// Peer is whom a held packet came from.
type Peer interface {
	// Send answers, from the address that was asked. It can be called from any
	// goroutine, once. The answer is gone if the socket has closed since.
	Send(answer []byte) error
}

// Batch is what one call to the kernel brought.
type Batch struct {
	Packets []Packet
	peer    func(i int) Peer
}

// Peer is whom packet i came from. Call it during Respond.
func (b *Batch) Peer(i int) Peer { return b.peer(i) }

// Engine answers packets for one Corefile at one address.
type Engine interface {
	// NewWorker is the engine for one socket.
	NewWorker() Worker
}

// Worker is an Engine's part for one socket. Only one goroutine calls it.
type Worker interface {
	// Respond sets the verdict of every packet, and for Send its answer. It must
	// not keep the batch or its packets.
	Respond(b *Batch)
}

// Package wire answers DNS over UDP without CoreDNS's parser, goroutine, writer
// and allocator, where what is answered stays the same; and takes TCP connections,
// so that one's queries are answered as their answers are found.
//
// It has three parts that do not know each other's insides. A Query is a plain
// question read from a packet (query.go), and the functions of patch.go turn a
// stored answer into the answer to it. An Engine answers batches of packets
// (batch.go); it knows no sockets. A Group is the sockets of one address
// (group_linux.go): it opens them beside CoreDNS's own with SO_REUSEPORT, steers
// the kernel's choice to them, asks the Engine, and hands what that leaves to
// dnsserver.Server.ServeDNS, as CoreDNS's own socket would have. So does each
// connection (stream_linux.go). If they close, the kernel falls back to CoreDNS's
// sockets.
//
// A Plan (plan.go) says which of a Corefile's server blocks may be answered so:
// those in which every plugin ahead of the cache is one that the Engine stands in
// for. Anything unusual, in the Corefile or in a packet, goes the ordinary way.
package wire

package wire

// Stats are a group's counters since it was opened.
type Stats struct {
	Sockets  int
	Streams  int    // TCP connections that are open
	Accepted uint64 // TCP connections
	Waiting  int    // queries in CoreDNS's chain
	Dropped  uint64 // packets that the kernel had no room for
	Unsent   uint64 // answers that the kernel did not take
	Overflow uint64 // queries answered SERVFAIL because too many were waiting
}

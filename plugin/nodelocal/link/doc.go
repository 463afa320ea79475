// Package link gives a node addresses of its own: a link that leads nowhere, with
// each address on it as a single host.
//
// The link is a dummy; where the kernel has none an ifb, which has no carrier and
// no ARP either; else the addresses go on the loopback. IPv6 addresses are put
// without duplicate detection: nobody else can have them, and a tentative one cannot
// be bound. Addresses that a start puts end by themselves unless somebody says that
// they are to stay: a process that never comes to serve leaves none.
//
// The kernel answers an address of its own with that address as the source. Before
// a Service's address is captured that would be wrong: what processes of this
// host send there is still translated, and the answer would come back to an
// address that is no host's. So the route to it keeps the source it had.
package link

// Package steer has the kernel choose among the sockets that share an address
// (SO_REUSEPORT): all of CoreDNS's do, so that a new process can start before the
// old one is gone.
//
// Left alone, the kernel spreads packets and connections over all of them by a hash
// of both ends. A program on the group of sockets (SO_ATTACH_REUSEPORT_CBPF, for
// which no privilege is needed) names one by its index instead. The index depends
// on who else is in the group and changes when somebody leaves, so it is found out,
// by traffic of our own that the program treats apart. A program that names an index
// that is gone leaves the choice to the kernel again: it fails open.
//
// Here is what both kinds of sockets need, and the Listener for TCP. Package wire
// has the same for its UDP sockets, which it steers by the DNS ID.
package steer

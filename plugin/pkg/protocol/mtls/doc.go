// Package mtls is how the programs of Firebreak know each other: TLS 1.3 with
// certificates on both sides, from one small CA.
//
// A certificate is known by a URI name, not by an address: pods get new
// addresses, and a name on an address would have to follow. Servers are
// protocol.ServerURI, the controller's API is protocol.APIURI, callers are
// protocol.ClientURIPrefix and a name. Key usages are kept apart: a stolen
// server key cannot start a drill, a stolen client key cannot pose as a server.
//
// Files are re-read when their content changes, without a restart. What is
// broken, of the wrong kind or expired never replaces what works: it is
// reported, and the old certificate goes on.
//
// It stands beside the protocol because both sides need the same rules, and a
// plugin may not import the controller nor the other way round.
package mtls

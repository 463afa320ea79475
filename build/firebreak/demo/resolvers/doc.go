// Package resolvers has DNS clients that behave as the stub resolvers of real
// systems do, as far as failover goes: whom they ask, when they ask again, from
// which port and with which ID, and whom they ask the next time.
//
//   - Glibc asks its servers one after the other. A server that is silent costs
//     its whole timeout, for every lookup anew.
//   - Musl asks all of them at once, and takes the first answer.
//   - Resolved (systemd) asks its current server, and takes the next one as the
//     current one when it is silent.
//
// Each looks up A and AAAA, as getaddrinfo does, from a source address of its
// own, and says what it did in a Result. They are for the demo and for tests:
// what a drill says of a client can be held against what the client itself saw.
package resolvers

// Package demo shows a whole drill on one machine, for somebody who has never
// heard of it: three DNS servers, a controller, and clients that behave as
// those of real systems do.
//
// Nothing is played: the servers are the real CoreDNS, each a process of its
// own; the controller is the real one; they know each other by certificates
// made for the occasion; the clients (package resolvers) send real queries. Only
// the waits around the outage are shortened, and the report says so. Then each
// client's own log is held against what the report says of it.
//
// It needs no root and no network but loopback: a random /24 of 127.0.0.0/8, so
// that several can run at once. Every process it starts ends with it, even if
// it is killed itself.
package demo

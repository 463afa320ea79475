// Package rules captures what is sent to addresses of this node: it keeps packets
// to and from them at the DNS port out of connection tracking (NOTRACK, before
// it), in both IP families, over UDP and TCP.
//
// For an address of a Service that is the capture itself: what is not tracked
// is not translated, so kube-proxy's rules pass it by and it reaches the address on
// this node. For an address that only this node has, it saves a conntrack entry
// for each question, and the races that lose some of them.
//
// The set in force is always written whole, in one transaction. With nftables it
// stands in one table of this process, which it has in common with nobody; the
// kernel removes the table when the process ends, however it ends, so that
// nothing is captured that nobody serves. Where there is no nftables, iptables does
// it, in chains of our own.
//
// The set has two degrees. What is probed is only what an address sends to itself,
// which no client can: with it one asks the own server at a Service's address before
// anybody else is sent there. What is captured is everything.
package rules

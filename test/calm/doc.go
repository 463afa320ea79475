// Package calm proves what the node cache promises when things go wrong: nodecache
// in front of hedge, as on a node, with real sockets, real misbehaving upstreams
// (package test/upstream) and, where memory or a restart counts, a process of its
// own.
//
// A latency is a figure of a quiet machine. With FIREBREAK_SOAK it is held;
// without, it is printed, and only what no busy machine excuses is held: answers,
// failures, and how often upstreams are asked.
package calm

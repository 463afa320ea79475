// Package fleet knows the servers that back each other up, and talks to them.
//
// A fleet file lists them (Load): it is read strictly, and everything in it is
// checked before anything of it is used. A Fleet watches its servers: it asks
// each one's control endpoint for its state and its readiness URL, sends it a
// DNS question of its own, and measures how far its clock is from ours. From
// that it answers at once with run.Facts, in our time, whatever the servers do.
//
// What may take long is asked for by name: seen tables, counters, recordings,
// and a run's actions, each with a deadline and a bound on its size. What a
// server answers is decoded leniently, since it may be one version newer; what
// it refuses comes back as the protocol.Problem it sent.
package fleet

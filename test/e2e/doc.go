// Package e2e proves drills end to end with the real programs: DNS servers and
// controllers as processes of their own, clients with real sockets, on addresses
// of 127.0.0.0/8. Waits of a run are shortened (FIREBREAK_DRILL_*_SECONDS);
// those of a drill on its server never are, so the whole takes about two minutes.
//
// Each test has two servers, ns1 and ns2, on addresses of its own, and clients
// that ask ns1 first, as resolv.conf has it.
package e2e

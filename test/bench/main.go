// Command bench measures what an answer from the cache costs: ours, stock
// CoreDNS's, NodeLocal DNSCache's, that of Debian's resolvers, and next to them
// two floors, an echo in C and one in Go, below which no UDP server can go.
//
// All in one run, interleaved: the machine's mood changes by the minute, so each
// round starts every server once, and figures are compared within their round
// only. A server has one CPU and the load client another. CPU time is read from
// outside, and an answer counts only if the upstream was not asked for it.
//
// What may be held by the result is in claims.go; a server is a description in
// servers.go, debian.go or floors.go; a kind of load is a line in works.go.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if code, is := role(); is {
		os.Exit(code)
	}
	o, err := parseOptions(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2)
	}
	// What runs is ended by us, so an interrupt must come to us alone and leave
	// time for it.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	stop := make(chan struct{})
	go func() {
		<-interrupted
		close(stop)
	}()
	failed, err := run(o, os.Stdout, os.Stderr, stop)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if o.hold && failed > 0 {
		fmt.Fprintln(os.Stderr, "bench:", errors.New("not everything holds that has to"))
		os.Exit(1)
	}
}

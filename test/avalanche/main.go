// Command avalanche reproduces how one dead DNS server becomes everybody's
// outage: four servers with a limit to what they can do, behind a Service as
// kube-proxy makes one, clients that ask as glibc does, and then one server is
// black-holed and stays in the Service for 50 seconds, as long as Kubernetes
// takes to notice a dead node. Three ways to ask are compared: straight to the
// Service, through NodeLocal DNSCache's Corefile, and through our node cache.
//
// What is real: the kernel's DNAT and connection tracking (so a retry from the
// same port goes to the same dead server), the sockets, the waiting times, and
// the caches, which are the programs themselves. What is a model: the servers,
// which answer at a fixed rate from a bounded queue instead of using up a CPU,
// and the stub resolver, which is written after glibc's source, because thousands
// of its lookups have to wait at once.
//
// It needs root, and touches nothing but namespaces of its own.
package main

import (
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
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	stop := make(chan struct{})
	go func() {
		<-interrupted
		close(stop)
	}()
	r, err := run(o, os.Stderr, stop)
	if err == nil {
		err = report(o, r, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "avalanche:", err)
		os.Exit(1)
	}
	if o.hold && !r.holds() {
		os.Exit(1)
	}
}

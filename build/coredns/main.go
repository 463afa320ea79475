// Command coredns is the DNS server: CoreDNS with every stock plugin that a
// cluster or a host uses, and ours. A stock cluster's Corefile runs on it
// unchanged.
//
//	coredns -conf Corefile        serve
//	coredns check -conf Corefile  say whether the Corefile is right, serve nothing
//	coredns probe                 ask the server on this machine whether it is well
package main

import (
	"fmt"
	"os"

	"firebreakdns.io/firebreak/plugin/pkg/protocol/version"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
)

func main() {
	if err := dnsserver.SetDirectives(directives); err != nil {
		fmt.Fprintln(os.Stderr, "coredns:", err)
		os.Exit(1)
	}
	caddy.AppVersion = coremain.CoreVersion + "+firebreak." + version.String()

	// coremain parses the flags and dies on anything that is not one, so our own
	// words are looked at first.
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "check":
			os.Exit(check(os.Args[2:], os.Stdout, os.Stderr))
		case "probe":
			os.Exit(probe(os.Args[2:], os.Stdout, os.Stderr))
		}
	}
	coremain.Run()
}

package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
)

const checkUsage = `Usage: coredns check [-conf FILE] [-dns.port PORT]

Parses the Corefile and sets up every plugin in it, as a start or a reload
would, and serves nothing. FILE "-" is standard input. Exit code 0: it is right;
1: it is not, and why; 2: wrong usage.

What only shows when sockets are opened (an address in use, an upstream that
does not answer) is not checked. The kubernetes plugin wants the cluster's
credentials at set-up, so a Corefile with it is checked where they are: in its
pod, or with "endpoint" and "kubeconfig".

`

// check is the command `coredns check`.
func check(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, checkUsage); flags.PrintDefaults() }
	conf := flags.String("conf", "Corefile", "Corefile to check")
	flags.StringVar(&dnsserver.Port, "dns.port", dnsserver.DefaultPort, "default port")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "coredns check: %q: the file is given with -conf\n", flags.Arg(0))
		return 2
	}
	body, err := readCorefile(*conf)
	if err != nil {
		fmt.Fprintln(stderr, "coredns check:", err)
		return 1
	}
	caddy.Quiet, dnsserver.Quiet = true, true
	input := caddy.CaddyfileInput{Filepath: *conf, Contents: body, ServerTypeName: "dns"}
	if err := caddy.ValidateAndExecuteDirectives(input, nil, true); err != nil {
		fmt.Fprintf(stderr, "coredns check: %s: %v\n", *conf, err)
		return 1
	}
	fmt.Fprintf(stdout, "%s: ok\n", *conf)
	return 0
}

func readCorefile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name) //nolint:gosec // the caller's own file
}

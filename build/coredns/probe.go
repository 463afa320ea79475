package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const probeUsage = `Usage: coredns probe [-timeout 2s] [URL]

Asks a server whether it is well: for images without a shell and for service
managers. URL is
  http://ADDRESS/PATH  the ready or health plugin; well is an answer of 200
  dns://ADDRESS/NAME   a question for NAME's addresses; well is any answer but
                       SERVFAIL and REFUSED
Exit code 0: well; 1: not, and why; 2: wrong usage.

`

// probeURL is where the ready plugin listens if nothing else is said.
const probeURL = "http://127.0.0.1:8181/ready"

// probe is the command `coredns probe`.
func probe(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, probeUsage); flags.PrintDefaults() }
	timeout := flags.Duration("timeout", 2*time.Second, "how long to wait for the answer")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	target := probeURL
	switch flags.NArg() {
	case 0:
	case 1:
		target = flags.Arg(0)
	default:
		flags.Usage()
		return 2
	}
	u, err := url.Parse(target)
	if err != nil {
		fmt.Fprintln(stderr, "coredns probe:", err)
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	var said string
	switch u.Scheme {
	case "http":
		said, err = askHTTP(ctx, target)
	case "dns":
		said, err = askDNS(ctx, u)
	default:
		fmt.Fprintf(stderr, "coredns probe: %s: begin the URL with http:// or dns://\n", target)
		return 2
	}
	if err != nil {
		fmt.Fprintf(stderr, "coredns probe: %s: %v\n", target, err)
		return 1
	}
	fmt.Fprintf(stdout, "%s: %s\n", target, said)
	return 0
}

func askHTTP(ctx context.Context, target string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return "", err
	}
	// Straight to the server: a proxy's answer would say nothing of it.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1024)) // the status decides
	said := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", resp.Status, said)
	}
	return said, nil
}

func askDNS(ctx context.Context, u *url.URL) (string, error) {
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), "53")
	}
	m := new(dns.Msg).SetQuestion(dns.Fqdn(strings.TrimPrefix(u.Path, "/")), dns.TypeA)
	resp, _, err := new(dns.Client).ExchangeContext(ctx, m, addr)
	if err != nil {
		return "", err
	}
	rcode := dns.RcodeToString[resp.Rcode]
	if resp.Rcode == dns.RcodeServerFailure || resp.Rcode == dns.RcodeRefused {
		return "", fmt.Errorf("answered %s", rcode)
	}
	return rcode, nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/miekg/dns"
)

const probeUsage = `Usage: coredns probe [-timeout 2s] [-live] [URL]

Asks a server whether it is well: for exec probes, images without a shell and
service managers. URL is
  unix:///PATH         the control plugin's socket, which is one process's own
                       even where two of them share all addresses; well is a
                       server whose plugins are ready, as the ready plugin
                       asks them. With -live: one that serves at all
  http://ADDRESS/PATH  the ready or health plugin; well is an answer of 200
  dns://ADDRESS/NAME   a question for NAME's addresses; well is any answer but
                       SERVFAIL and REFUSED
Prints one line. Exit code 0: well; 1: not, and why; 2: wrong usage.

`

// probeURL is where the ready plugin listens if nothing else is said.
const probeURL = "http://127.0.0.1:8181/ready"

// probe is the command `coredns probe`.
func probe(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, probeUsage); flags.PrintDefaults() }
	timeout := flags.Duration("timeout", 2*time.Second, "how long to wait for the answer")
	live := flags.Bool("live", false, "with unix:///PATH: ask whether it serves, not whether it is ready")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
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
	if *live && u.Scheme != "unix" {
		fmt.Fprintf(stderr, "coredns probe: %s: -live goes with unix:///PATH; for the health plugin give its URL, http://ADDRESS/health\n", target)
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	var said string
	switch u.Scheme {
	case "unix":
		if u.Host != "" || u.Path == "" {
			fmt.Fprintf(stderr, "coredns probe: %s: a socket's path is absolute: unix:///run/firebreak/control.sock\n", target)
			return 2
		}
		said, err = askSocket(ctx, u.Path, *live)
	case "http":
		said, err = askHTTP(ctx, target)
	case "dns":
		said, err = askDNS(ctx, u)
	default:
		fmt.Fprintf(stderr, "coredns probe: %s: begin the URL with unix://, http:// or dns://\n", target)
		return 2
	}
	if err != nil {
		fmt.Fprintf(stderr, "coredns probe: %s: %v\n", target, err)
		return 1
	}
	fmt.Fprintf(stdout, "%s: %s\n", target, said)
	return 0
}

// askSocket asks the process that has the control socket at path.
func askSocket(ctx context.Context, path string, live bool) (string, error) {
	route, well := protocol.PathReady, "ready"
	if live {
		route, well = protocol.PathLive, "live"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://control"+route, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return "", errors.New("no server has this socket: it has not started, or its Corefile has no `control unix://" + path + "`")
	case errors.Is(err, context.DeadlineExceeded):
		return "", errors.New("no answer in time: it is still starting, or hangs")
	case err != nil:
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return well, nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 16<<10)) // the status decides
	var p protocol.Problem
	if json.Unmarshal(body, &p) != nil || p.Detail == "" {
		return "", errors.New(resp.Status)
	}
	return "", errors.New(oneLine(p.Detail))
}

// oneLine is s without line breaks: a probe's output is one line of an event.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

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

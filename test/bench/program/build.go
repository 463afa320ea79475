package program

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Root is the folder of the module, found from where we stand.
func Root() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if filepath.Base(mod) != "go.mod" {
		return "", errors.New("not in the module: run it from the repository")
	}
	return filepath.Dir(mod), nil
}

// BuildGo builds one of the module's programs as releases are built.
func BuildGo(pkg, to string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to, pkg) //nolint:gosec // our own packages
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// BuildC compiles one C source.
func BuildC(source, to string) error {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return errors.New("no C compiler: install gcc")
	}
	out, err := exec.Command(cc, "-O2", "-Wall", "-Wextra", "-Werror", "-o", to, source, "-pthread").CombinedOutput() //nolint:gosec // our own sources
	if err != nil {
		return fmt.Errorf("cc %s: %w\n%s", source, err, out)
	}
	return nil
}

// FreePort is a port on loopback that neither UDP nor TCP uses.
func FreePort() (int, error) {
	for range 100 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := ln.Addr().(*net.TCPAddr).Port
		pc, err := net.ListenPacket("udp", ln.Addr().String())
		ln.Close()
		if err == nil {
			_ = pc.Close()
			return port, nil
		}
	}
	return 0, errors.New("no port that both UDP and TCP leave free")
}

// WaitDNS waits until a server answers a question without an error, and returns
// how long that took; it gives up when the process ends.
func WaitDNS(p *Process, addr, name string, limit time.Duration) (time.Duration, error) {
	begin := time.Now()
	client := &dns.Client{Timeout: 250 * time.Millisecond}
	var last error
	for time.Since(begin) < limit {
		m := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA)
		r, _, err := client.Exchange(m, addr)
		switch {
		case err != nil:
			last = err
		case r.Rcode != dns.RcodeSuccess:
			last = errors.New(dns.RcodeToString[r.Rcode])
		default:
			return time.Since(begin), nil
		}
		if err := p.Err(); err != nil {
			return 0, err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return 0, fmt.Errorf("%s does not answer after %s: %w; it said: %s", addr, limit, last, Tail(p.log, 1500))
}

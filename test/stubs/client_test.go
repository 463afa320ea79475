//go:build linux

package stubs

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"firebreakdns.io/firebreak/test/stubs/lab"
	"firebreakdns.io/firebreak/test/stubs/wire"
)

// client is a row at work: one host, or with a forwarder two.
type client struct {
	row
	fleet   *fleet
	host    *lab.Host // whom the servers see
	behind  *lab.Host // who looks names up: the same host, if there is no forwarder
	out     string    // where programs are
	log     string    // of its lookups
	process []*lab.Process
	capture *wire.Capture
}

// makeClients makes the hosts of every row and builds their programs.
func makeClients(t *testing.T, f *fleet, rows []row) []*client {
	t.Helper()
	out := filepath.Join(f.dir, "bin")
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	compiled := map[string]bool{}
	var clients []*client
	for i, r := range rows {
		if !compiled[r.folder] {
			compiled[r.folder] = true
			if err := r.build(out); err != nil {
				t.Fatal(err)
			}
		}
		c := &client{row: r, fleet: f, out: out}
		var err error
		addr := clientAddr(i)
		if r.ipv6 {
			addr = clientAddr6(i)
		}
		if c.host, err = f.lab.Host(r.Name, lab.Clients, addr); err != nil {
			t.Fatal(err)
		}
		c.behind = c.host
		if r.forwarder() {
			if c.behind, err = f.lab.Host(r.Name+"-behind", lab.Clients, clientAddr(100+i)); err != nil {
				t.Fatal(err)
			}
		}
		clients = append(clients, c)
	}
	return clients
}

func (r row) build(out string) error {
	if _, err := os.Stat(filepath.Join(r.folder, "build")); err != nil {
		return nil
	}
	cmd := exec.Command("sh", "./build")
	cmd.Dir, cmd.Env = r.folder, append(os.Environ(), "OUT="+out)
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s/build: %w\n%s", r.folder, err, b)
	}
	return nil
}

// start begins to look names up, with a resolver that has learnt nothing yet.
func (c *client) start(ctx context.Context, label string) (err error) {
	dir := filepath.Join(c.fleet.dir, label, c.Name)
	if c.capture, err = wire.Start(c.host.Namespace()); err != nil {
		return err
	}
	asks := c.resolvConf()
	if c.behind != c.host {
		files, err := lab.WriteFiles(filepath.Join(dir, "forwarder"), asks)
		if err != nil {
			return err
		}
		p, err := c.host.Start(ctx, files, filepath.Join(dir, "forwarder.log"), nil, c.script("forwarder")...)
		if err != nil {
			return err
		}
		c.process = append(c.process, p)
		if err := c.host.Listens(53); err != nil {
			return err
		}
		asks = fmt.Sprintf("nameserver %s\n", c.host.Addr)
	}
	files, err := lab.WriteFiles(dir, asks)
	if err != nil {
		return err
	}
	env := []string{"OUT=" + c.out, "SUFFIX=" + c.suffix(label), fmt.Sprintf("EVERY_MS=%d", c.every)}
	if c.oneFamily() {
		env = append(env, "FAMILY=4")
	}
	c.log = filepath.Join(dir, "lookups")
	p, err := c.behind.Start(ctx, files, c.log, env, c.script("run")...)
	if err != nil {
		return err
	}
	c.process = append(c.process, p)
	return nil
}

// suffix under which the row's names lie.
func (r row) suffix(label string) string {
	return r.Name + "." + label + "." + strings.TrimSuffix(zone, ".")
}

// script of the row's folder, run in it.
func (r row) script(name string) []string {
	return []string{"sh", "-c", `cd "$1" && . "./$2"`, "sh", r.folder, name}
}

// seen is what one client did: over its link, and by its own log.
type seen struct {
	*client
	addr    netip.Addr
	packets []wire.Packet
	queries []wire.Query
	lookups []lookup
}

// stop ends the client and gives what it did.
func (c *client) stop() (seen, error) {
	for _, p := range c.process {
		if !p.Running() {
			return seen{}, fmt.Errorf("%s ended by itself: %s", c.Name, tail(p.Output(), 5))
		}
	}
	packets, err := c.capture.Stop()
	for _, p := range c.process {
		p.Stop()
	}
	c.process = nil
	if err != nil {
		return seen{}, err
	}
	lookups, err := readLookups(c.log)
	if err != nil {
		return seen{}, err
	}
	queries := wire.Queries(packets, c.host.Addr)
	for i := range queries { // servers go by their IPv4 address from here on
		for s := range serverCount {
			if queries[i].Server == serverAddr6(s) {
				queries[i].Server = serverAddr(s)
			}
		}
	}
	return seen{client: c, addr: c.host.Addr, packets: packets, queries: queries, lookups: lookups}, nil
}

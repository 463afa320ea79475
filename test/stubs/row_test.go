//go:build linux

package stubs

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// row is one client of resolvers/list.
type row struct {
	Name    string
	folder  string // its path
	servers int    // in resolv.conf; 0: the Service's address
	ipv6    bool   // it has IPv6 alone, and asks servers by it
	every   int    // ms
	Options string // of resolv.conf
}

func (r row) service() bool { return r.servers == 0 }

// tcp says that it asks over TCP from the first query on.
func (r row) tcp() bool { return strings.Contains(r.Options, "use-vc") }

// oneFamily has it ask for IPv4 addresses alone, one question for each lookup: so
// that what it loses can be counted in its log; and of two questions on one
// connection, a server that is drilled reads only the first before it closes it.
func (r row) oneFamily() bool { return r.service() || r.tcp() }

// server is the address at which it asks one.
func (r row) server(i int) netip.Addr {
	if r.ipv6 {
		return serverAddr6(i)
	}
	return serverAddr(i)
}

// forwarder says whether a forwarder stands between the client and the servers.
func (r row) forwarder() bool {
	_, err := os.Stat(filepath.Join(r.folder, "forwarder"))
	return err == nil
}

var rowName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,23}$`)

func readRows(dir string) ([]row, error) {
	path := filepath.Join(dir, "list")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	for i, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		bad := func(format string, args ...any) error {
			return fmt.Errorf("%s:%d: %s", path, i+1, fmt.Sprintf(format, args...))
		}
		if len(fields) < 5 {
			return nil, bad("want name, folder, asks, every and options (- for none)")
		}
		r := row{Name: fields[0], folder: filepath.Join(dir, fields[1])}
		if !rowName.MatchString(r.Name) {
			return nil, bad("%q: use 1 to 24 of a-z, 0-9 and -", r.Name)
		}
		if _, err := os.Stat(filepath.Join(r.folder, "run")); err != nil {
			return nil, bad("%v", err)
		}
		if fields[2] != "service" {
			var count string
			count, r.ipv6 = strings.CutSuffix(fields[2], "-ipv6")
			if r.servers, err = strconv.Atoi(count); err != nil || r.servers < 1 || r.servers > serverCount {
				return nil, bad("asks is %q: write service, or how many servers, 1 to %d, with -ipv6 behind it or without", fields[2], serverCount)
			}
		}
		if r.every, err = strconv.Atoi(fields[3]); err != nil || r.every < 100 {
			return nil, bad("every is %q: write milliseconds, 100 or more", fields[3])
		}
		if o := strings.Join(fields[4:], " "); o != "-" {
			r.Options = o
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// missing are the packages that a row needs and the machine does not have.
func (r row) missing() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(r.folder, "needs"))
	if err != nil {
		return nil, err
	}
	var packages []string
	for line := range strings.Lines(string(text)) {
		command, pkg, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			return nil, fmt.Errorf("%s/needs: %q: write COMMAND PACKAGE", r.folder, line)
		}
		if _, err := exec.LookPath(command); err != nil {
			packages = append(packages, pkg)
		}
	}
	return packages, nil
}

// resolvConf of the row's host.
func (r row) resolvConf() string {
	var b strings.Builder
	if r.service() {
		fmt.Fprintf(&b, "nameserver %s\n", serviceAddr)
	}
	for i := range r.servers {
		fmt.Fprintf(&b, "nameserver %s\n", r.server(i))
	}
	if r.Options != "" {
		fmt.Fprintf(&b, "options %s\n", r.Options)
	}
	return b.String()
}

//go:build linux

package nodelocal

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// server is a coredns in a namespace.
type server struct {
	t      *testing.T
	lab    *lab
	ns     string
	dir    string
	log    string
	cmd    *exec.Cmd
	exited chan struct{}
	ready  string // port of /ready
	scrape string // port of /metrics
}

// launch starts the server with a Corefile, and does not wait for anything.
// before are words ahead of the program: what runs it with less rights.
func (l *lab) launch(ns string, corefile func(dir string) string, before ...string) *server {
	l.t.Helper()
	s := &server{t: l.t, lab: l, ns: ns, dir: l.t.TempDir(), exited: make(chan struct{})}
	s.write(corefile(s.dir))
	s.log = filepath.Join(s.dir, "log")
	log, err := os.Create(s.log)
	if err != nil {
		l.t.Fatal(err)
	}
	args := append([]string{"netns", "exec", ns}, before...)
	s.cmd = exec.Command("ip", append(args, program(l.t), "-conf", filepath.Join(s.dir, "Corefile"))...)
	s.cmd.Dir = s.dir
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := start(s.cmd); err != nil {
		l.t.Fatal(err)
	}
	go func() { _ = s.cmd.Wait(); log.Close(); close(s.exited) }()
	l.t.Cleanup(func() {
		s.kill()
		if l.t.Failed() {
			l.t.Logf("log of a server in %s:\n%s", ns, s.said())
		}
	})
	return s
}

func (s *server) write(corefile string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "Corefile"), []byte(corefile), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) said() string {
	b, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, "Plugins not ready") { // once for each time that we ask
			out.WriteString(line)
		}
	}
	return out.String()
}

// says waits for a text in the log.
func (s *server) says(within time.Duration, text string) {
	s.t.Helper()
	until(s.t, within, "the log says "+text+"\n"+s.said(), func() bool { return strings.Contains(s.said(), text) })
}

// kill ends the server as the kernel's OOM killer does.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // ip-netns executes the program in its place
	<-s.exited
}

// stop ends the server as the kubelet does.
func (s *server) stop() {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(15 * time.Second):
		s.t.Error("the server does not end within 15 s of SIGTERM")
		s.kill()
	}
}

// fails waits for the server to end by itself, and returns what it said.
func (s *server) fails() string {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(15 * time.Second):
		s.t.Errorf("the server started, want an error\n%s", s.said())
		return ""
	}
	if s.cmd.ProcessState.ExitCode() == 0 {
		s.t.Errorf("the server ended with 0, want an error")
	}
	return s.said()
}

// get fetches from the server's HTTP endpoints, over TCP or its control socket.
func (s *server) get(url, unixSocket string) (status int, body string) {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (c net.Conn, err error) {
			if unixSocket != "" {
				return new(net.Dialer).DialContext(ctx, "unix", unixSocket)
			}
			if e := within(s.ns, func() { c, err = new(net.Dialer).DialContext(ctx, network, addr) }); e != nil {
				return nil, e
			}
			return c, err
		},
	}}
	resp, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	var b strings.Builder
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			break
		}
	}
	return resp.StatusCode, b.String()
}

// isReady says what the ready plugin says.
func (s *server) isReady() bool {
	status, _ := s.get("http://127.0.0.1:"+s.ready+"/ready", "")
	return status == http.StatusOK
}

// state is what the control endpoint says.
func (s *server) state() string {
	_, body := s.get("http://control/v1/nodelocal", filepath.Join(s.dir, "control.sock"))
	return body
}

func (s *server) metrics() string {
	_, body := s.get("http://127.0.0.1:"+s.scrape+"/metrics", "")
	return body
}

// captured waits until the server has captured all of its addresses.
func (s *server) captured() *server {
	s.t.Helper()
	until(s.t, 10*time.Second, "the addresses are captured", s.isReady)
	return s
}

// conf is the node's Corefile.
type conf struct {
	addrs    []netip.Addr
	upstream string // default: cluster DNS
	options  string // of nodelocal
	ready    string // a port, default 8181
	scrape   string // another one, default 2 more
	extra    string // lines of the server block
	check    string
	uncached bool // without nodecache
}

// nodeServer starts the node's server.
func (l *lab) nodeServer(c conf, before ...string) *server {
	l.t.Helper()
	c.ports()
	s := l.launch(l.node, c.corefile, before...)
	s.ready, s.scrape = c.ready, c.scrape
	return s
}

func words(addrs []netip.Addr) string {
	var out []string
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return strings.Join(out, " ")
}

func (c *conf) ports() {
	if c.ready == "" {
		c.ready = "8181"
	}
	if c.scrape == "" {
		c.scrape = c.ready[:len(c.ready)-1] + "3"
	}
}

func (c conf) corefile(dir string) string {
	c.ports()
	if c.upstream == "" {
		c.upstream = cluster4.String()
	}
	cache := "nodecache"
	if c.uncached {
		cache = ""
	}
	check := c.check
	if check == "" {
		check = "up.test."
	}
	return fmt.Sprintf(`. {
	bind %[1]s
	nodelocal %[1]s {
		check %[6]s
		%[2]s
	}
	control unix://%[3]s/control.sock
	ready 127.0.0.1:%[4]s {
		monitor continuously
	}
	prometheus 127.0.0.1:%[7]s
	errors
	%[8]s
	template IN TXT who.test {
		answer "{{ .Name }} 0 IN TXT node"
	}
	%[9]s
	forward . %[5]s {
		max_fails 0
	}
}
`, words(c.addrs), c.options, dir, c.ready, c.upstream, check, c.scrape, c.extra, cache)
}

// clusterDNS starts cluster DNS.
func (l *lab) clusterDNS() *server {
	l.t.Helper()
	s := l.launch(l.server, func(string) string {
		return `. {
	errors
	template IN TXT test {
		answer "{{ .Name }} 5 IN TXT cluster"
	}
	template ANY ANY test {
		rcode NOERROR
	}
}
`
	})
	until(l.t, 10*time.Second, "cluster DNS answers", func() bool { return l.who(l.node, "udp", cluster4) == "cluster" })
	return s
}

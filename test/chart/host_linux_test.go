package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// insideEnv makes this test binary the first process of a host of its own:
// network and mount namespaces in which a Corefile can run as it is.
const insideEnv = "FIREBREAK_CHART_INSIDE"

func TestMain(m *testing.M) {
	if os.Getenv(insideEnv) != "" {
		os.Exit(inside(os.Args[1], os.Args[2], os.Args[3]))
	}
	code := m.Run()
	removePrograms()
	os.Exit(code)
}

// seen is what a Corefile did on its host.
type seen struct {
	Error   string // it did not come up
	Ready   string // what the probe said last
	Metrics string
	Log     string
}

// startOnHost runs a Corefile, with nothing changed, on a host of its own until it
// is ready, or does not get so.
func startOnHost(t *testing.T, coredns, corefile, metrics string) seen {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("Hosts of their own are made by root")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "Corefile")
	if err := os.WriteFile(file, []byte(corefile), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], coredns, file, metrics)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL, // and with the first process of a PID namespace go all others
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("The host: %v\n%s", err, said.String())
	}
	var s seen
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatalf("The host said %q: %v\n%s", out.String(), err, said.String())
	}
	return s
}

// inside is the first process of a host.
func inside(coredns, corefile, metrics string) int {
	s := runInside(coredns, corefile, metrics)
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runInside(coredns, corefile, metrics string) (s seen) {
	text, err := os.ReadFile(corefile)
	if err == nil {
		var servers []string
		if strings.Contains(string(text), "bind ") { // else all addresses of the host are the Corefile's own
			servers = append(servers, worldIP)
		}
		if strings.Contains(string(text), "fallback "+serviceIP) {
			servers = append(servers, serviceIP)
		}
		err = host(servers)
	}
	if err != nil {
		s.Error = "setting up the host: " + err.Error()
		return s
	}
	var log bytes.Buffer
	server := exec.Command(coredns, "-conf", corefile)
	server.Stdout, server.Stderr = &log, &log
	server.Env = append(os.Environ(), "NODE_NAME=node1")
	if err := server.Start(); err != nil {
		s.Error = err.Error()
		return s
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	stop := func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = server.Process.Kill()
			<-ended
			s.Error = "it did not end within 20 s of SIGTERM"
		}
		s.Log = log.String()
	}
	probe := func(args ...string) (string, bool) {
		out, err := exec.Command(coredns, append(append([]string{"probe"}, args...), "unix:///run/firebreak/control.sock")...).CombinedOutput()
		return strings.TrimSpace(string(out)), err == nil
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		said, live := probe("-live")
		if live {
			break
		}
		select {
		case err := <-ended:
			s.Error, s.Log = fmt.Sprintf("it ended: %v", err), log.String()
			return s
		default:
		}
		if time.Now().After(deadline) {
			s.Error = "it does not serve after 30 s: " + said
			stop()
			return s
		}
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		var ready bool
		if s.Ready, ready = probe(); ready {
			break
		}
	}
	if metrics != "" {
		if s.Metrics, err = get("http://" + metrics + "/metrics"); err != nil {
			s.Error = "its metrics: " + err.Error()
		}
	}
	stop()
	return s
}

// serviceIP is cluster DNS's address in the values, and worldIP the server that the
// node itself asks.
const serviceIP, worldIP = "10.96.0.10", "192.0.2.53"

// host gives the namespaces what a node has: a loopback link, folders that can be
// written to, a resolv.conf, and servers that answer at their addresses.
func host(servers []string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	for _, dir := range []string{"/run", "/var/lib"} {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			return err
		}
		if err := os.Mkdir(dir+"/firebreak", 0o700); err != nil {
			return err
		}
	}
	const conf = "/run/resolv.conf"
	if err := errors.Join(os.WriteFile(conf, []byte("nameserver "+worldIP+"\n"), 0o600), syscall.Mount(conf, "/etc/resolv.conf", "", syscall.MS_BIND, "")); err != nil {
		return err
	}
	if err := ip("link", "set", "lo", "up"); err != nil {
		return err
	}
	for _, address := range servers {
		if err := ip("address", "add", address+"/32", "dev", "lo"); err != nil {
			return err
		}
		if err := answer(address + ":53"); err != nil {
			return err
		}
	}
	return nil
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// answer runs a DNS server that has one address for every name, until the host ends.
func answer(address string) error {
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			m.Answer = []dns.RR{&dns.A{
				Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 30},
				A:   net.IPv4(10, 96, 0, 1),
			}}
		}
		_ = w.WriteMsg(m) // the host ended
	})
	pc, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: handler}, {Listener: ln, Handler: handler}} {
		go func() { _ = s.ActivateAndServe() }() // until the host ends
	}
	return nil
}

func get(url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

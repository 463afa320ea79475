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

	"firebreakdns.io/firebreak/controller/pki"

	"github.com/miekg/dns"
)

// insideEnv makes this test binary the first process of a host of its own:
// network and mount namespaces in which a Corefile can run as it is.
const insideEnv = "FIREBREAK_CHART_INSIDE"

func TestMain(m *testing.M) {
	if what := os.Getenv(insideEnv); what != "" {
		os.Exit(inside(what, os.Args[1], os.Args[2], os.Args[3]))
	}
	code := m.Run()
	removePrograms()
	os.Exit(code)
}

// onHost runs a Corefile, with nothing changed, on a host of its own, and reads what
// came of it into result.
func onHost(t *testing.T, result any, what, coredns, corefile string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("Hosts of their own are made by root")
	}
	dir := t.TempDir()
	file, out := filepath.Join(dir, "Corefile"), filepath.Join(dir, "result")
	if err := os.WriteFile(file, []byte(corefile), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], coredns, file, out)
	cmd.Env = append(os.Environ(), insideEnv+"="+what)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL, // and with the first process of a PID namespace go all others
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("The host: %v\n%s", err, said)
	}
	text, err := os.ReadFile(out)
	if err == nil {
		err = json.Unmarshal(text, result)
	}
	if err != nil {
		t.Fatalf("The host's result %q: %v", text, err)
	}
}

// inside is the first process of a host.
func inside(what, coredns, corefile, out string) int {
	var result any
	switch what {
	case "start":
		result = startInside(coredns, corefile)
	case "swap":
		result = swapInside(coredns, corefile)
	}
	text, err := json.Marshal(result)
	if err == nil {
		err = os.WriteFile(out, text, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// seen is what a Corefile did on its host.
type seen struct {
	Error   string // it did not come up
	Ready   string // what the probe said last
	Metrics string
	Log     string
}

// metricsAddress is where the Corefiles have their metrics.
const metricsAddress = "127.0.0.1:9253"

func startInside(coredns, corefile string) (s seen) {
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
		return seen{Error: "setting up the host: " + err.Error()}
	}
	p, err := begin(coredns, corefile)
	if err != nil {
		return seen{Error: err.Error()}
	}
	defer func() {
		if err := p.stop(); err != nil && s.Error == "" {
			s.Error = err.Error()
		}
		s.Log = p.log.String()
	}()
	err = until(30*time.Second, func() error {
		select {
		case err := <-p.ended:
			p.ended <- err
			return nil
		default:
			_, err := p.probe("-live")
			return err
		}
	})
	if err != nil {
		return seen{Error: "it does not serve after 30 s"}
	}
	_ = until(5*time.Second, func() (err error) { s.Ready, err = p.probe(); return err }) // what it said last is looked at
	if strings.Contains(string(text), "prometheus") {
		if s.Metrics, err = get("http://" + metricsAddress + "/metrics"); err != nil {
			s.Error = "its metrics: " + err.Error()
		}
	}
	return s
}

// server is our DNS server on this host.
type server struct {
	coredns string
	cmd     *exec.Cmd
	log     bytes.Buffer // to be read when it has ended
	ended   chan error
}

func begin(coredns, corefile string) (*server, error) {
	p := &server{coredns: coredns, cmd: exec.Command(coredns, "-conf", corefile), ended: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.Env = append(os.Environ(), "NODE_NAME=node1")
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p, nil
}

// probe asks it as the chart's probes do.
func (p *server) probe(args ...string) (string, error) {
	out, err := exec.Command(p.coredns, append(append([]string{"probe"}, args...), "unix:///run/firebreak/control.sock")...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// stop ends it as a kubelet does.
func (p *server) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case err := <-p.ended:
		if err != nil {
			return fmt.Errorf("it ended: %w", err)
		}
		return nil
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return errors.New("it did not end within 20 s of SIGTERM")
	}
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
	// What is written below /etc is the host's own.
	for _, dir := range []string{"/run/etc", "/run/etc.work"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if err := syscall.Mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir=/run/etc,workdir=/run/etc.work"); err != nil {
		return err
	}
	if err := certificates("/etc/firebreak/tls"); err != nil {
		return err
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

// certificates writes what a Secret for the control endpoint has.
func certificates(dir string) error {
	ca, err := pki.NewCA("chart", 0)
	if err != nil {
		return err
	}
	pair, err := ca.Server(0)
	if err != nil {
		return err
	}
	return errors.Join(
		os.MkdirAll(dir, 0o700),
		os.WriteFile(dir+"/tls.crt", pair.Cert, 0o600),
		os.WriteFile(dir+"/tls.key", pair.Key, 0o600),
		os.WriteFile(dir+"/ca.crt", pair.CA, 0o600),
	)
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

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"firebreakdns.io/firebreak/controller/fleet"
	"firebreakdns.io/firebreak/controller/fleet/fleettest"
	"firebreakdns.io/firebreak/controller/pki"
	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// lab is two servers on 127.NET.SUBNET.1 and .2, with a folder for all files.
type lab struct {
	t    *testing.T
	net  int
	dir  string
	ns   map[string]*process
	more string        // of the fleet file
	ca   *fleettest.CA // of control endpoints on https://; nil: they are unix sockets
	// bin has the programs where they are not those of all tests; envs are more of
	// the servers' environment, by name.
	bin  programs
	envs map[string][]string
	// before are what stands between the controller and the servers, by name.
	before map[string]*between
	small  string // a file system of its own for what programs keep; "": there is none
}

// disk is the folder in which programs keep what they keep.
func (l *lab) disk() string {
	if l.small != "" {
		return l.small
	}
	return l.dir
}

// newLab starts both servers, with control endpoints on unix sockets. Tests on
// different nets do not meet.
func newLab(t *testing.T, net int) *lab {
	t.Helper()
	l := emptyLab(t, net, nil)
	l.servers()
	return l
}

// newTLSLab has control endpoints on https://, with certificates on both sides.
func newTLSLab(t *testing.T, net int) *lab {
	t.Helper()
	l := emptyLab(t, net, fleettest.NewCA(t))
	l.servers()
	return l
}

// emptyLab has no server yet.
func emptyLab(t *testing.T, net int, ca *fleettest.CA) *lab {
	t.Helper()
	t.Parallel()
	dir, err := os.MkdirTemp("", fmt.Sprintf("fb-%d-", net)) // short: sockets' paths are
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, net: net, dir: dir, ns: map[string]*process{}, ca: ca, bin: built, before: map[string]*between{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("files are left in %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	return l
}

// servers starts both.
func (l *lab) servers() {
	l.t.Helper()
	for _, name := range []string{"ns1", "ns2"} {
		l.corefile(name, "")
		l.server(name)
	}
}

func (l *lab) ip(host int) string { return fmt.Sprintf("127.%d.%d.%d", l.net, built.subnet, host) }

func (l *lab) addr(name string) string {
	return net.JoinHostPort(l.ip(int(name[2]-'0')), "1053")
}

func (l *lab) socket(name string) string { return filepath.Join(l.dir, name+".sock") }

// control is a server's endpoint itself.
func (l *lab) control(name string) string {
	if l.ca == nil {
		return "unix://" + l.socket(name)
	}
	return "https://" + net.JoinHostPort(l.ip(int(name[2]-'0')), "9443")
}

// reached is a server's endpoint as the fleet file has it.
func (l *lab) reached(name string) string {
	if b := l.before[name]; b != nil {
		return b.url()
	}
	return l.control(name)
}

// corefile writes a server's Corefile. Names under bad.example. fail there.
func (l *lab) corefile(name, more string) {
	l.t.Helper()
	control := "control " + l.control(name)
	if l.ca != nil {
		f := l.ca.Server(name)
		control = fmt.Sprintf("control %s:9443 {\n tls %s %s %s\n allow controller\n }", l.ip(int(name[2]-'0')), f.Cert, f.Key, f.CA)
	}
	text := fmt.Sprintf(`.:1053 {
    bind %s
    errors
    %s
    clients {
        file %s
    }
    drill
    template ANY ANY bad.example. {
        rcode SERVFAIL
    }
    template IN A {
        answer "{{ .Name }} 5 IN A 192.0.2.1"
    }
    template IN NS {
        answer "{{ .Name }} 5 IN NS ns.example."
    }
    %s
}
`, l.ip(int(name[2]-'0')), control, filepath.Join(l.disk(), name+".table"), more)
	if err := os.WriteFile(filepath.Join(l.dir, name+".conf"), []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// server starts one, and waits until it answers.
func (l *lab) server(name string) *process {
	l.t.Helper()
	l.ns[name] = l.start(name, l.envs[name], l.bin.coredns(), "-conf", filepath.Join(l.dir, name+".conf"))
	l.eventually(10*time.Second, name+" answers", func() bool { return l.answers(name) })
	return l.ns[name]
}

// process is a program that was started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func (l *lab) start(name string, env []string, program string, args ...string) *process {
	l.t.Helper()
	log, err := os.OpenFile(filepath.Join(l.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		l.t.Fatal(err)
	}
	defer log.Close()
	p := &process{cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = log, log, l.dir
	p.cmd.Env = append(os.Environ(), env...)
	// Nothing outlives the tests, however they end.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }() // how it ended is in its log
	l.t.Cleanup(func() { p.signal(syscall.SIGKILL); <-p.done })
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // gone already is as good

func (p *process) kill() { p.signal(syscall.SIGKILL); <-p.done }

func (l *lab) eventually(within time.Duration, what string, is func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(within); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// ask asks a server from an address of the lab.
func (l *lab) ask(host int, name, question string, within time.Duration) (*dns.Msg, error) {
	m := new(dns.Msg)
	m.SetQuestion(question, dns.TypeA)
	c := dns.Client{Timeout: within, Dialer: &net.Dialer{Timeout: within, LocalAddr: &net.UDPAddr{IP: net.ParseIP(l.ip(host))}}}
	r, _, err := c.Exchange(m, l.addr(name))
	return r, err
}

// answers reports whether a server answers an ordinary client.
func (l *lab) answers(name string) bool {
	r, err := l.ask(200, name, "www.example.", 300*time.Millisecond)
	return err == nil && r.Rcode == dns.RcodeSuccess
}

// stub is a client that asks the servers in turn until it is answered, ten
// times a second, a new question each time.
type stub struct {
	mu      sync.Mutex
	names   string // what it asks under
	answers map[string]int
	failed  int // lookups that nobody answered
}

func (s *stub) ask(under string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = under
}

func (s *stub) answeredBy(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers[name]
}

// stub starts one on an address of the lab. It ends with the test.
func (l *lab) stub(host int, servers ...string) *stub {
	s := &stub{names: "good.example.", answers: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			s.mu.Lock()
			question := fmt.Sprintf("q%d-%d.%s", host, n, s.names)
			s.mu.Unlock()
			by := ""
			for _, server := range servers {
				if _, err := l.ask(host, server, question, 250*time.Millisecond); err == nil {
					by = server
					break
				}
			}
			s.mu.Lock()
			if by == "" {
				s.failed++
			} else {
				s.answers[by]++
			}
			s.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	l.t.Cleanup(func() { cancel(); done.Wait() })
	return s
}

// short are the shortened waits of most tests.
func short() []string {
	return []string{"FIREBREAK_DRILL_READING_SECONDS=2", "FIREBREAK_DRILL_GAP_SECONDS=0", "FIREBREAK_DRILL_TAIL_SECONDS=2", "FIREBREAK_DRILL_RETRY_SECONDS=5", "FIREBREAK_DRILL_RETURN_SECONDS=1"}
}

// controller is one that was started, on a state folder by its name.
type controller struct {
	*process
	l    *lab
	name string
	http *http.Client
}

func (l *lab) fleetFile(name string, enabled bool) string {
	l.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "fleet: lab\ndrills: {enabled: %v}\nservers:\n", enabled)
	for _, ns := range []string{"ns1", "ns2"} {
		fmt.Fprintf(&b, "  - {name: %s, dns: [\"%s\"], control: %q}\n", ns, l.addr(ns), l.reached(ns))
	}
	if l.ca != nil {
		f := l.ca.Client("controller")
		fmt.Fprintf(&b, "tls: {ca: %s, cert: %s, key: %s}\n", f.CA, f.Cert, f.Key)
	}
	b.WriteString(l.more)
	path := filepath.Join(l.dir, name+".yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// controller starts one and waits until it answers, and hears both servers
// unless one is down on purpose.
func (l *lab) controller(name string, env []string) *controller {
	l.t.Helper()
	state := filepath.Join(l.disk(), name)
	c := &controller{l: l, name: name, process: l.start(name, env, l.bin.controller(), "--fleet", l.fleetFile(name, true), "--state", state)}
	c.http = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(state, "api.sock"))
	}}}
	l.t.Cleanup(c.http.CloseIdleConnections)
	l.eventually(10*time.Second, "controller "+name+" answers", func() bool {
		var list view.ServerList
		return c.call("GET", view.PathServers, nil, &list) == http.StatusOK && list.Servers[0].LastProbe != nil
	})
	return c
}

// call calls the API; 0: it did not answer.
func (c *controller) call(method, path string, body, into any) int {
	c.l.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		c.l.t.Fatal(err)
	}
	if body == nil {
		data = nil
	}
	req, err := http.NewRequest(method, "http://controller"+path, bytes.NewReader(data))
	if err != nil {
		c.l.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		c.l.t.Errorf("%s %s: %s: %v", method, path, resp.Status, err)
	}
	return resp.StatusCode
}

func drill(server string) string { return "/api/v1/servers/" + server + "/drill" }

// begin starts a drill of ns1 for everyone, and waits until it is out.
func (c *controller) begin(seconds int) string {
	c.l.t.Helper()
	var report run.Report
	if status := c.call("POST", drill("ns1"), view.DrillRequest{Everyone: true, DurationSeconds: seconds, Reason: "e2e"}, &report); status != http.StatusAccepted {
		c.l.t.Fatalf("%d: %+v", status, report)
	}
	c.l.eventually(10*time.Second, "ns1 is out", func() bool { return c.l.drilled("ns1") != "" })
	return report.ID
}

// final waits for a run's end.
func (c *controller) final(id string, within time.Duration) run.Report {
	c.l.t.Helper()
	var report run.Report
	c.l.eventually(within, "run "+id+" ends", func() bool {
		return c.call("GET", view.PathDrills+"/"+id, nil, &report) == http.StatusOK && report.Phase.Final()
	})
	return report
}

// refused asks for a drill that is to be refused, and returns why.
func (c *controller) refused(server string, q view.DrillRequest) run.Reason {
	c.l.t.Helper()
	var p view.RefusedProblem
	if status := c.call("POST", drill(server), q, &p); status != http.StatusConflict {
		c.l.t.Errorf("not refused: %d %+v", status, p)
	}
	return p.Reason
}

// state of a server, from its control endpoint; nil while it does not answer.
func (l *lab) state(name string) *protocol.State {
	l.t.Helper()
	var config *tls.Config
	if l.ca != nil {
		var err error
		if config, err = pki.ToServer(l.ca.Client("controller"), nil); err != nil {
			l.t.Fatal(err)
		}
	}
	client := fleet.NewClient(l.control(name), config)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s, _, _, err := client.State(ctx)
	if err != nil {
		return nil
	}
	return &s
}

// drilled is the drill that is on on a server, "" for none.
func (l *lab) drilled(name string) string {
	if s := l.state(name); s != nil && s.Drill != nil && s.Drill.Ended == nil {
		return s.Drill.ID
	}
	return ""
}

// clean waits until no server drills or records.
func (l *lab) clean(within time.Duration) {
	l.t.Helper()
	l.eventually(within, "no drill and no recording is left", func() bool {
		return !slices.ContainsFunc([]string{"ns1", "ns2"}, func(name string) bool {
			s := l.state(name)
			return s == nil || s.Drill != nil && s.Drill.Ended == nil || s.Recording != nil && !s.Recording.Frozen
		})
	})
}

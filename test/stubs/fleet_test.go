//go:build linux

package stubs

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/pki"
	"firebreakdns.io/firebreak/test/stubs/lab"
)

// fleet is three real servers and a real controller, each on its own host.
type fleet struct {
	lab     *lab.Lab
	dir     string
	servers []*lab.Host
	api     *api
	running map[string]*lab.Process
}

// options of a fleet.
type fleetOptions struct {
	coredns string          // the program
	offsets []time.Duration // of each server's clock, where the program has such an offset
}

// returnAfter the end it is asked who came back.
const returnAfter = 12 * time.Second

// timings are a run's waits that a test need not sit through. The tail stays
// longer than the 6 s in which a question may be asked again.
var timings = []string{
	"FIREBREAK_DRILL_READING_SECONDS=3",
	"FIREBREAK_DRILL_GAP_SECONDS=0",
	"FIREBREAK_DRILL_TAIL_SECONDS=8",
	"FIREBREAK_DRILL_RETRY_SECONDS=5",
	fmt.Sprintf("FIREBREAK_DRILL_RETURN_SECONDS=%d", int(returnAfter.Seconds())),
}

func startFleet(t *testing.T, l *lab.Lab, o fleetOptions) *fleet {
	t.Helper()
	dir, err := tempDir()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{lab: l, dir: dir, running: map[string]*lab.Process{}}
	t.Cleanup(func() {
		// Reports are what a failure is found in; FIREBREAK_STUBS_LOGS=1 adds logs.
		for name, p := range f.running {
			if !p.Running() {
				t.Errorf("%s ended by itself:\n%s", name, p.Output())
			}
			p.Stop()
			if t.Failed() && os.Getenv("FIREBREAK_STUBS_LOGS") != "" {
				t.Logf("%s said:\n%s", name, tail(p.Output(), 30))
			}
		}
		os.RemoveAll(dir)
	})
	if err := f.certificates(); err != nil {
		t.Fatal(err)
	}
	var backends []netip.Addr
	for i := range serverCount {
		backends = append(backends, serverAddr(i))
		if err := f.startServer(context.Background(), i, o); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Service(serviceAddr, backends); err != nil {
		t.Fatal(err)
	}
	// As long as the cleanup says: the test's own context ends before it.
	if err := f.startController(context.Background(), built(t)); err != nil {
		t.Fatal(err)
	}
	return f
}

func tail(s string, lines int) string {
	all := strings.Split(s, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (f *fleet) certificates() error {
	ca, err := pki.NewCA("stubs", 2*time.Hour)
	if err != nil {
		return err
	}
	if err := ca.Save(f.dir); err != nil {
		return err
	}
	server, err := ca.Server(time.Hour)
	if err != nil {
		return err
	}
	client, err := ca.Client(time.Hour, "controller")
	if err != nil {
		return err
	}
	if _, err := server.Save(f.dir, "server"); err != nil {
		return err
	}
	_, err = client.Save(f.dir, "controller")
	return err
}

// corefile answers every name of the zone, so that each question can be a new one.
const corefile = `.:53 {
	clients
	drill
	control :%[1]d {
		tls %[2]s/server.crt %[2]s/server.key %[2]s/ca.crt
	}
	template IN A %[3]s {
		answer "{{ .Name }} 60 IN A 192.0.2.80"
	}
	template IN AAAA %[3]s {
		answer "{{ .Name }} 60 IN AAAA 2001:db8::80"
	}
	errors
}
`

func (f *fleet) startServer(ctx context.Context, i int, o fleetOptions) error {
	name := serverName(i)
	h, err := f.lab.Host(name, lab.Servers, serverAddr(i))
	if err != nil {
		return err
	}
	if err := h.Add(serverAddr6(i)); err != nil {
		return err
	}
	f.servers = append(f.servers, h)
	conf := filepath.Join(f.dir, name+".corefile")
	if err := os.WriteFile(conf, fmt.Appendf(nil, corefile, controlPort, f.dir, zone), 0o600); err != nil {
		return err
	}
	var env []string
	if len(o.offsets) > i {
		env = append(env, envOffset+"="+o.offsets[i].String())
	}
	p, err := h.Start(ctx, lab.Files{}, filepath.Join(f.dir, name+".log"), env, o.coredns, "-conf", conf)
	if err != nil {
		return err
	}
	f.running[name] = p
	return nil
}

func (f *fleet) startController(ctx context.Context, bin string) error {
	var file strings.Builder
	file.WriteString("fleet: stubs\ndrills: {enabled: true}\nservers:\n")
	for i := range serverCount {
		fmt.Fprintf(&file, "- {name: %s, dns: [%q], control: %q}\n", serverName(i), serverAddr(i).String()+":53", fmt.Sprintf("https://%s:%d", serverAddr(i), controlPort))
	}
	fmt.Fprintf(&file, "probe: {name: probe.%s, type: A}\n", zone)
	file.WriteString("tls: {ca: ca.crt, cert: controller.crt, key: controller.key}\n")
	path := filepath.Join(f.dir, "fleet.yaml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		return err
	}
	h, err := f.lab.Host("controller", lab.Servers, controllerAddr)
	if err != nil {
		return err
	}
	state := filepath.Join(f.dir, "state")
	p, err := h.Start(ctx, lab.Files{}, filepath.Join(f.dir, "controller.log"), timings, filepath.Join(bin, "controller"), "--fleet", path, "--state", state)
	if err != nil {
		return err
	}
	f.running["controller"] = p
	f.api = newAPI(filepath.Join(state, "api.sock"))
	return f.api.ready(ctx)
}

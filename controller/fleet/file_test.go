package fleet

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/fleet/fleettest"
)

const small = `fleet: office
servers:
  - {name: ns1, dns: ["192.0.2.1:53"], control: "unix:///run/firebreak/ns1.sock"}
  - {name: ns2, dns: [192.0.2.2], control: "unix:///run/firebreak/ns2.sock"}
`

// full sets every field that there is.
const full = `# everything
fleet: office
drills:
  enabled: true
servers:
  - name: ns1
    dns: ["192.0.2.1:53", "[2001:db8::1]:53"]
    control: https://192.0.2.1:9443
    ready: http://192.0.2.1:8181/ready
  - name: ns2
    dns: [192.0.2.2]
    control: unix:///run/firebreak/ns2.sock
balancer: true
service: ["192.0.2.10:53"]
groups:
  mobile: [laptop, 192.0.2.96/28]
names:
  laptop: [192.0.2.77, "2001:db8::77"]
  printer: 192.0.2.78
infrastructure: [192.0.2.254, 198.51.100.0/24]
window: {days: [mon, tue], startTime: "02:00", endTime: "05:00", timeZone: Europe/Berlin}
tls: {ca: ca.pem, cert: controller.pem, key: controller.key}
api:
  listen: 127.0.0.1:8443
  tls: {ca: ca.pem, cert: api.pem, key: api.key}
  roles: {viewer: [dashboard], operator: [ann, bob], assistant: [helper]}
metrics: {listen: "127.0.0.1:9154"}
monitors:
  - {name: www.example.org}
  - {name: www.example.org, type: AAAA}
probe: {name: example.org, type: SOA}
schedules:
  - name: first-week
    every: monthly
    hour: 3
    timeZone: Europe/Berlin
    servers: [ns1, ns2]
    everyone: true
    suspend: false
    limits: {stuck: 1, errorPoints: 0.5, expectSeconds: 60}
`

func TestParse(t *testing.T) {
	c, err := Parse("fleet.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Servers) != 2 || c.Servers[1].DNS[0] != netip.MustParseAddrPort("192.0.2.2:53") || c.Servers[0].DNS[1].Addr() != netip.MustParseAddr("2001:db8::1") {
		t.Errorf("servers: %+v", c.Servers)
	}
	if !c.Drills.Enabled || c.Probe.Name != "example.org." || c.Monitors[0].Type != "A" || c.Schedules[0].Limits.ErrorPoints != 0.5 || c.Schedules[0].Suspended() {
		t.Errorf("%+v", c)
	}
	c, err = Parse("fleet.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if c.Drills.Enabled || c.Probe.Name != "." {
		t.Errorf("defaults: %+v", c)
	}
}

// Each change to a good file is refused at its line, by its field, with what to do.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		want           []string
	}{
		{"typo", "balancer: true", "balencer: true", []string{"fleet.yaml:13: balencer: there is no such field", `did you mean "balancer"?`}},
		{"typo in a list", "    control: unix", "    contorl: unix", []string{"fleet.yaml:12: servers[1].contorl", `did you mean "control"?`}},
		{"unknown field", "balancer: true", "colour: red", []string{"fleet.yaml:13: colour: there is no such field: there are", "api, balancer, drills"}},
		{"a field twice", "balancer: true", "balancer: true\nbalancer: false", []string{"fleet.yaml:14:", "line 13"}},
		{"a switch that is none", "enabled: true", "enabled: yes", []string{`fleet.yaml:4: drills.enabled: "yes": want true or false`}},
		{"a quoted switch", "enabled: true", `enabled: "true"`, []string{`fleet.yaml:4: drills.enabled`}},
		{"a list that is none", "dns: [192.0.2.2]", "dns: 192.0.2.2", []string{"fleet.yaml:11: servers[1].dns: want a list"}},
		{"a number that is none", "hour: 3", "hour: three", []string{`schedules[0].hour: "three": want a whole number`}},
		{"two of one name", "name: ns2", "name: ns1", []string{`fleet.yaml:10: servers[1].name: "ns1" is the name of servers[0] (line 6) too`}},
		{"two of one address", "dns: [192.0.2.2]", "dns: [192.0.2.1]", []string{"fleet.yaml:11: servers[1].dns[0]: 192.0.2.1:53 is servers[0].dns[0] (line 7) too"}},
		{"one address in two forms", "dns: [192.0.2.2]", `dns: ["[2001:db8:0::1]:53"]`, []string{"fleet.yaml:11: servers[1].dns[0]"}},
		{"two of one endpoint", "unix:///run/firebreak/ns2.sock", "https://192.0.2.1:9443", []string{"fleet.yaml:12: servers[1].control", "servers[0]"}},
		{"a bad name", "name: ns2", "name: NS_2", []string{"fleet.yaml:10: servers[1].name"}},
		{"a bad fleet", "fleet: office", "fleet: The Office", []string{"fleet.yaml:2: fleet"}},
		{"a bad address", "dns: [192.0.2.2]", "dns: [192.0.2.256]", []string{`fleet.yaml:11: servers[1].dns[0]: "192.0.2.256" is no address: write IP or IP:PORT`}},
		{"a name for an address", "dns: [192.0.2.2]", "dns: [ns2.example.org]", []string{`servers[1].dns[0]: "ns2.example.org" is no address`}},
		{"an unspecified address", "dns: [192.0.2.2]", "dns: [0.0.0.0]", []string{"servers[1].dns[0]"}},
		{"plain http", "https://192.0.2.1:9443", "http://192.0.2.1:9443", []string{"servers[0].control", "never plain over TCP"}},
		{"a control path", "https://192.0.2.1:9443", "https://192.0.2.1:9443/v1", []string{"servers[0].control"}},
		{"a relative socket", "unix:///run/firebreak/ns2.sock", "unix://ns2.sock", []string{"servers[1].control", "absolute"}},
		{"a bad readiness URL", "http://192.0.2.1:8181/ready", "192.0.2.1:8181", []string{"servers[0].ready"}},
		{"a bad prefix", "192.0.2.96/28", "192.0.2.96/33", []string{"fleet.yaml:16: groups.mobile[1]", "192.0.2.96/33"}},
		{"a prefix with more bits", "198.51.100.0/24", "198.51.100.1/24", []string{"infrastructure[1]", "did you mean 198.51.100.0/24?"}},
		{"an unknown member", "[laptop, ", "[labtop, ", []string{"groups.mobile[0]", `did you mean "laptop"?`}},
		{"a group and a name", "mobile: [", "printer: [", []string{"groups.printer"}},
		{"a bad name's address", "192.0.2.77", "192.0.2.0/24", []string{"names.laptop[0]"}},
		{"a bad zone", "endTime: \"05:00\", timeZone: Europe/Berlin", "endTime: \"05:00\", timeZone: Europe/Berln", []string{"fleet.yaml:21: window.timeZone", "IANA"}},
		{"a bad day", "days: [mon, tue]", "days: [monday]", []string{"window.days[0]"}},
		{"no tls", "tls: {ca: ca.pem, cert: controller.pem, key: controller.key}\n", "", []string{"servers[0].control", "needs tls"}},
		{"half a tls", "tls: {ca: ca.pem, cert: controller.pem, key: controller.key}", "tls: {ca: ca.pem, cert: controller.pem}", []string{"fleet.yaml:22: tls.key"}},
		{"plain API", "  tls: {ca: ca.pem, cert: api.pem, key: api.key}\n", "", []string{"fleet.yaml:24: api", "never plain"}},
		{"nobody may call", "  roles: {viewer: [dashboard], operator: [ann, bob], assistant: [helper]}\n", "", []string{"api.roles: nobody may call"}},
		{"two roles", "assistant: [helper]", "assistant: [ann]", []string{`api.roles.assistant[0]: "ann" stands in api.roles.operator[0] too`}},
		{"a bad caller", "viewer: [dashboard]", "viewer: [Dash Board]", []string{"api.roles.viewer[0]"}},
		{"a socket with roles", "listen: 127.0.0.1:8443", "listen: unix:///run/api.sock", []string{"api: a unix socket takes neither"}},
		{"a bad monitor", "{name: www.example.org, type: AAAA}", "{name: www.example.org, type: MX}", []string{"monitors[1].type"}},
		{"a bad probe", "type: SOA", "type: AXFR", []string{"probe.type"}},
		{"a service and no balancer", "balancer: true\n", "", []string{"service", "balancer is not true"}},
		{"an unknown server in a schedule", "servers: [ns1, ns2]", "servers: [ns1, n2]", []string{"schedules[0].servers[1]", `did you mean "ns2"?`}},
		{"a schedule's hour", "hour: 3", "hour: 24", []string{"schedules[0].hour"}},
		{"a schedule of an unknown kind", "every: monthly", "every: fortnight", []string{"schedules[0].every", "monthly or weekly"}},
		{"a schedule's prefix", "everyone: true", "clients: [10.0.0.0/40]", []string{"schedules[0].clients[0]"}},
		{"a schedule's upstream", "everyone: true", "upstream: nobody", []string{"schedules[0].upstream", "IP:PORT"}},
		{"one server", "  - name: ns2\n    dns: [192.0.2.2]\n    control: unix:///run/firebreak/ns2.sock\n", "", []string{"servers: a fleet has two"}},
		{"no YAML", "servers:", "servers: [", []string{"fleet.yaml:", "no YAML"}},
		{"an anchor", "servers: [ns1, ns2]", "servers: &a [ns1, ns2]", []string{"anchors"}},
		{"two documents", "# everything\n", "---\nfleet: a\n---\n", []string{"second document"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(full, c.old) {
				t.Fatalf("the test's %q is not in the file", c.old)
			}
			_, err := Parse("fleet.yaml", []byte(strings.Replace(full, c.old, c.new, 1)))
			if err == nil {
				t.Fatal("it was taken")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is not in:\n%s", w, err)
				}
			}
		})
	}
	for _, empty := range []string{"", "\n", "# nothing\n", "null\n", "---\n"} {
		if _, err := Parse("fleet.yaml", []byte(empty)); err == nil {
			t.Errorf("%q was taken", empty)
		}
	}
}

// All problems are told at once.
func TestAllProblems(t *testing.T) {
	_, err := Parse("f", []byte(strings.NewReplacer("name: ns2", "name: ns1", "192.0.2.96/28", "x/y", "hour: 3", "hour: 77").Replace(full)))
	if p, ok := err.(*Problems); !ok || len(p.List) != 4 || !slices.IsSortedFunc(p.List, func(a, b Problem) int { return a.Line - b.Line }) {
		t.Errorf("%v", err)
	}
}

func TestLoadChecksFiles(t *testing.T) {
	ca := fleettest.NewCA(t)
	controller, api, wrong := ca.Client("controller"), ca.API("api"), ca.Server("wrong")
	write := func(s string) string {
		path := filepath.Join(ca.Dir, "fleet.yaml")
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := strings.NewReplacer("controller.pem", filepath.Base(controller.Cert), "controller.key", controller.Key).Replace(full)
	if _, err := Load(write(good)); err != nil {
		t.Error(err)
	}
	_ = api
	for name, c := range map[string]struct{ old, new, want string }{
		"a missing certificate": {"cert: api.pem", "cert: no.pem", "api.tls: certificate files"},
		"of the wrong kind":     {"cert: api.pem, key: api.key", "cert: " + wrong.Cert + ", key: " + wrong.Key, "api.tls"},
		"a key of another":      {"cert: api.pem, key: api.key", "cert: api.pem, key: " + wrong.Key, "api.tls"},
		"a missing hosts file":  {"balancer: true", "balancer: true\nhosts: nowhere", "hosts: open"},
		"a CA that is none":     {"tls: {ca: ca.pem, cert: api.pem", "tls: {ca: " + api.Key + ", cert: api.pem", "no CA certificate"},
	} {
		if _, err := Load(write(strings.Replace(good, c.old, c.new, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Load(filepath.Join(ca.Dir, "none.yaml")); err == nil {
		t.Error("a file that is not there was read")
	}
	old := ca.Expired("controller")
	c, err := Load(write(strings.NewReplacer(filepath.Base(controller.Cert), old.Cert, controller.Key, old.Key).Replace(good)))
	if err != nil {
		t.Fatal(err)
	}
	if errs := c.Expired(time.Now()); len(errs) != 1 || !strings.Contains(errs[0].Error(), "expired") {
		t.Errorf("expired: %v", errs)
	}
}

func TestResolve(t *testing.T) {
	c, err := Parse("fleet.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string][]netip.Addr{"tablet": {netip.MustParseAddr("192.0.2.99")}}
	targets, missing := c.Resolve(false, []string{"mobile", "Tablet", "203.0.113.0/24", "::ffff:192.0.2.5"}, []string{"printer"}, seen)
	if len(missing) != 0 {
		t.Fatal(missing)
	}
	for addr, want := range map[string]bool{
		"192.0.2.77": true, "2001:db8::77": true, "192.0.2.100": true, "192.0.2.99": true, "203.0.113.9": true, "192.0.2.5": true,
		"::ffff:192.0.2.77": true, "192.0.2.78": false, "192.0.2.254": false, "192.0.2.6": false,
	} {
		if got := targets.Match(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
	everyone, _ := c.Resolve(true, nil, nil, nil)
	if everyone.Match(netip.MustParseAddr("198.51.100.3")) {
		t.Error("infrastructure is a target of everyone")
	}
	_, missing = c.Resolve(false, []string{"labtop", "192.0.2.0/33"}, []string{"192.0.2.1/24", "nobody"}, seen)
	var got []string
	for _, m := range missing {
		got = append(got, m.Field)
	}
	if !slices.Equal(got, []string{"clients[0]", "clients[1]", "exclude[0]", "exclude[1]"}) || !strings.Contains(missing[0].Message, `"laptop"`) || !strings.Contains(missing[2].Message, "192.0.2.0/24") {
		t.Errorf("%+v", missing)
	}
}

func TestHosts(t *testing.T) {
	got := parseHosts([]byte("# c\n192.0.2.5 phone phone.lan. # mine\n::ffff:192.0.2.6 Phone\nnonsense x\n192.0.2.7\n"))
	if len(got["phone"]) != 2 || len(got["phone.lan"]) != 1 || len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// What the docs show is taken as it stands there.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "standalone.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	if len(blocks) < 2 {
		t.Fatalf("%d examples", len(blocks))
	}
	c, err := Parse("docs/standalone.md", []byte(strings.Join(blocks, "")))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Schedules) != 2 || !c.Drills.Enabled || len(c.Warnings) != 0 {
		t.Errorf("%+v, %v", c.File, c.Warnings)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(small)
	f.Add(full)
	f.Add("fleet: &a a\nservers: *a")
	f.Add("servers: [[]]")
	f.Add("groups: {a: {b: c}}\nnames: [x]")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := Parse("f", []byte(s))
		if err != nil {
			p, ok := err.(*Problems)
			if !ok || len(p.List) == 0 || c != nil {
				t.Fatalf("%v", err)
			}
			return
		}
		if len(c.Servers) < 2 || c.Fleet == "" {
			t.Fatalf("taken: %+v", c)
		}
		for _, s := range c.Servers {
			if s.Name == "" || len(s.DNS) == 0 {
				t.Fatalf("taken: %+v", s)
			}
		}
	})
}

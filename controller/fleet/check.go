package fleet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/miekg/dns"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// Names of fleets and servers go into drills' IDs, file names, logs and metrics.
var (
	fleetName  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)
	serverName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?$`)
)

// CheckServerName says whether a server can have that name.
func CheckServerName(name string) error {
	if !serverName.MatchString(name) {
		return fmt.Errorf("%q is no name of a server: use 1 to 40 of a-z, 0-9, '.' and '-', with a letter or digit at both ends", name)
	}
	return nil
}

// checker turns a File into a Config, and notes everything that is wrong.
type checker struct {
	strict
	config *Config
}

func (c *checker) done() (*Config, error) {
	if len(c.problems) == 0 {
		return c.config, nil
	}
	slices.SortStableFunc(c.problems, func(a, b Problem) int { return a.Line - b.Line })
	return nil, &Problems{File: c.config.Path, List: c.problems}
}

func (c *checker) check(hosts []byte) {
	if len(c.problems) > 0 {
		return // what it says is not known well enough to judge it
	}
	if f := c.config.Fleet; !fleetName.MatchString(f) {
		c.bad("fleet", "%q is no name of a fleet: use 1 to 32 of a-z, 0-9 and -, with a letter or digit at both ends", f)
	}
	c.checkServers()
	for i, s := range c.config.File.Service {
		c.config.Service = append(c.config.Service, c.dnsAddress(fmt.Sprintf("service[%d]", i), s))
	}
	if len(c.config.Service) > 0 && !c.config.Balancer {
		c.bad("service", "these are a balancer's addresses, and balancer is not true: set it, or remove service")
	}
	c.checkClients(hosts)
	for i, s := range c.config.File.Infrastructure {
		if p, err := ParsePrefix(s); err != nil {
			c.bad(fmt.Sprintf("infrastructure[%d]", i), "%v", err)
		} else {
			c.config.Infrastructure = append(c.config.Infrastructure, p)
		}
	}
	c.checkWindow()
	c.checkAccess()
	c.config.Monitors = c.monitors("monitors", c.config.File.Monitors)
	c.checkProbe()
	c.checkSchedules()
}

// field notes an error of controller/run, which names a field below this one.
func (c *checker) field(at string, err error) {
	var fe *run.FieldError
	if errors.As(err, &fe) {
		c.bad(join(at, fe.Field), "%s", fe.Message)
	} else if err != nil {
		c.bad(at, "%v", err)
	}
}

func (c *checker) checkServers() {
	if len(c.config.File.Servers) < 2 {
		c.bad("servers", "a fleet has two servers at least: with one there is nobody to fail over to")
	}
	names, addresses, controls := map[string]string{}, map[netip.AddrPort]string{}, map[string]string{}
	for i, s := range c.config.File.Servers {
		at := fmt.Sprintf("servers[%d]", i)
		if err := CheckServerName(s.Name); err != nil {
			c.bad(at+".name", "%v", err)
		} else if other, twice := names[s.Name]; twice {
			c.bad(at+".name", "%q is the name of %s (line %d) too: give each server its own", s.Name, other, c.lines[other])
		}
		names[s.Name] = at
		out := ServerConfig{Name: s.Name, Control: s.Control, Ready: s.Ready}
		if len(s.DNS) == 0 {
			c.bad(at+".dns", "%s needs the addresses at which it answers DNS, as in [\"192.0.2.1:53\"]", s.Name)
		}
		for j, a := range s.DNS {
			field := fmt.Sprintf("%s.dns[%d]", at, j)
			addr := c.dnsAddress(field, a)
			if other, twice := addresses[addr]; twice && addr.IsValid() {
				c.bad(field, "%s is %s (line %d) too: two servers cannot have one address", addr, other, c.lines[other])
			}
			addresses[addr] = field
			out.DNS = append(out.DNS, addr)
		}
		if err := checkControl(s.Control); err != nil {
			c.bad(at+".control", "%v", err)
		} else if other, twice := controls[s.Control]; twice {
			c.bad(at+".control", "%s is the control endpoint of %s (line %d) too: two servers cannot have one", s.Control, other, c.lines[other])
		}
		controls[s.Control] = at
		if strings.HasPrefix(s.Control, "https://") && c.config.TLS == nil {
			c.bad(at+".control", "an endpoint on https:// needs tls with ca, cert and key, with which the controller shows who it is")
		}
		if err := checkReady(s.Ready); err != nil {
			c.bad(at+".ready", "%v", err)
		}
		c.config.Servers = append(c.config.Servers, out)
	}
}

// dnsAddress reads IP or IP:PORT.
func (c *checker) dnsAddress(field, s string) netip.AddrPort {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		var ip netip.Addr
		if ip, err = netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
			a = netip.AddrPortFrom(ip, 53)
		}
	}
	a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	switch {
	case err != nil:
		c.bad(field, "%q is no address: write IP or IP:PORT, as in 192.0.2.1:53 or [2001:db8::1]:53", s)
	case a.Port() == 0:
		c.bad(field, "%q has port 0: nobody answers there", s)
	case a.Addr().IsUnspecified() || a.Addr().IsMulticast() || a.Addr().Zone() != "":
		c.bad(field, "%q is no address that clients can ask: write one of the server's own", s)
	}
	return a
}

func checkControl(s string) error {
	if path, ok := strings.CutPrefix(s, "unix://"); ok {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%q: a unix socket's path is absolute, as in unix:///run/firebreak/ns1.sock", s)
		}
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "":
		return fmt.Errorf("%q is no control endpoint: write https://HOST:PORT or unix:///PATH", s)
	case u.Scheme == "http":
		return fmt.Errorf("%q: a control endpoint is never plain over TCP: write https:// or unix:///", s)
	case u.Scheme != "https" || u.Port() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%q is no control endpoint: write https://HOST:PORT and nothing more", s)
	}
	return nil
}

func checkReady(s string) error {
	if s == "" {
		return nil
	}
	if u, err := url.Parse(s); err != nil || u.Scheme != "http" || u.Host == "" || u.User != nil {
		return fmt.Errorf("%q is no readiness URL: write it as in http://192.0.2.1:8181/ready, or leave it out", s)
	}
	return nil
}

func (c *checker) checkClients(hosts []byte) {
	c.config.names, c.config.groups = map[string][]netip.Addr{}, map[string][]netip.Prefix{}
	for _, name := range sorted(c.config.Names) {
		at := join("names", name)
		if looksLikeAddress(name) {
			c.bad(at, "%q is an address, not a name: write name: [address]", name)
			continue
		}
		for i, s := range c.config.Names[name] {
			a, err := netip.ParseAddr(s)
			if err != nil {
				c.bad(fmt.Sprintf("%s[%d]", at, i), "%q is no address: names have addresses, groups may have prefixes", s)
				continue
			}
			key := strings.ToLower(name)
			c.config.names[key] = append(c.config.names[key], a.Unmap().WithZone(""))
		}
	}
	for name, addrs := range parseHosts(hosts) {
		if _, ours := c.config.names[name]; !ours { // the fleet file's own word counts
			c.config.names[name] = addrs
		}
	}
	for _, name := range sorted(c.config.Groups) {
		at := join("groups", name)
		if _, both := c.config.names[strings.ToLower(name)]; both {
			c.bad(at, "%q is a client's name too: give the group another", name)
		}
		if looksLikeAddress(name) {
			c.bad(at, "%q is an address, not a name: write name: [address, …]", name)
		}
		if len(c.config.Groups[name]) == 0 {
			c.bad(at, "the group is empty: list its addresses, prefixes or names")
		}
		key := strings.ToLower(name)
		if _, twice := c.config.groups[key]; twice {
			c.bad(at, "it stands there twice, in other letters: keep one")
		}
		for i, s := range c.config.Groups[name] {
			ps, err := c.config.member(s)
			if err != nil {
				c.bad(fmt.Sprintf("%s[%d]", at, i), "%v", err)
			}
			c.config.groups[key] = append(c.config.groups[key], ps...)
		}
	}
}

func (c *checker) checkAccess() {
	if t := c.config.TLS; t != nil {
		c.complete("tls", t)
	}
	api := c.config.API
	switch path, unix := strings.CutPrefix(api.Listen, "unix://"); {
	case api.Listen == "" || unix:
		if unix && !filepath.IsAbs(path) {
			c.bad("api.listen", "%q: a unix socket's path is absolute, as in unix:///run/firebreak/api.sock", api.Listen)
		}
		if api.TLS != nil || len(api.Roles.all()) > 0 {
			c.bad("api", "a unix socket takes neither tls nor roles: who may open it is an operator. For callers with certificates set api.listen to IP:PORT")
		}
	default:
		if _, err := netip.ParseAddrPort(api.Listen); err != nil {
			c.bad("api.listen", "%q is no address: write IP:PORT or unix:///PATH", api.Listen)
		}
		if api.TLS == nil {
			c.bad("api", "on IP:PORT the API needs tls with ca, cert and key: it is never plain over TCP")
		} else {
			c.complete("api.tls", api.TLS)
		}
		if len(api.Roles.all()) == 0 {
			c.bad("api.roles", "nobody may call: list callers' names under viewer, operator or assistant")
		}
	}
	roles := map[string]string{}
	for _, r := range api.Roles.all() {
		if err := mtls.CheckName(r.name); err != nil {
			c.bad(r.field, "%v", err)
		}
		if other, twice := roles[r.name]; twice {
			c.bad(r.field, "%q stands in %s too: a caller has one role", r.name, other)
		}
		roles[r.name] = r.field
	}
	if m := c.config.Metrics.Listen; m != "" {
		if _, err := netip.ParseAddrPort(m); err != nil {
			c.bad("metrics.listen", "%q is no address: write IP:PORT", m)
		}
	}
}

type roleEntry struct{ field, name string }

func (r Roles) all() []roleEntry {
	var out []roleEntry
	for _, l := range []struct {
		role  string
		names []string
	}{{"viewer", r.Viewer}, {"operator", r.Operator}, {"assistant", r.Assistant}} {
		for i, name := range l.names {
			out = append(out, roleEntry{fmt.Sprintf("api.roles.%s[%d]", l.role, i), name})
		}
	}
	return out
}

func (c *checker) complete(at string, t *TLS) {
	for _, f := range []struct{ name, value string }{{"ca", t.CA}, {"cert", t.Cert}, {"key", t.Key}} {
		if f.value == "" {
			c.bad(join(at, f.name), "it is missing: tls needs ca, cert and key, three PEM files")
		}
	}
}

func (c *checker) monitors(at string, list []run.Monitor) []run.Monitor {
	var out []run.Monitor
	for i, m := range list {
		checked, field, err := CheckMonitor(m)
		if err != nil {
			c.bad(fmt.Sprintf("%s[%d].%s", at, i, field), "%v", err)
		}
		out = append(out, checked)
	}
	return out
}

// CheckMonitor fills in what a monitor leaves out, or says in which field what
// is wrong.
func CheckMonitor(m run.Monitor) (out run.Monitor, field string, err error) {
	if _, ok := dns.IsDomainName(m.Name); !ok || m.Name == "" {
		return m, "name", fmt.Errorf("%q is no domain name", m.Name)
	}
	// DNS would take these, and no host is called so: a type was meant, or a URL.
	if i := strings.IndexFunc(m.Name, func(r rune) bool { return strings.ContainsRune(":/", r) || unicode.IsSpace(r) || unicode.IsControl(r) }); i >= 0 {
		return m, "name", fmt.Errorf("%q is no domain name, with a %q in it: write the name alone, and A or AAAA as its type", m.Name, m.Name[i:i+1])
	}
	if m.Type == "" {
		m.Type = "A"
	}
	if m.Type != "A" && m.Type != "AAAA" {
		return m, "type", fmt.Errorf("%q cannot be monitored: write A or AAAA", m.Type)
	}
	return m, "", nil
}

func (c *checker) checkProbe() {
	p := c.config.File.Probe
	if p.Name == "" {
		p.Name = "."
	}
	if p.Type == "" {
		p.Type = "NS"
	}
	if _, ok := dns.IsDomainName(p.Name); !ok {
		c.bad("probe.name", "%q is no domain name", p.Name)
	}
	kind, ok := dns.StringToType[p.Type]
	if !ok || kind == dns.TypeNone || kind == dns.TypeAXFR || kind == dns.TypeIXFR || kind == dns.TypeANY {
		c.bad("probe.type", "%q cannot be asked for: write NS, SOA, A or AAAA", p.Type)
	}
	c.config.Probe = Question{Name: dns.Fqdn(p.Name), Type: kind}
}

// checkWindow holds the window to what the shortest drill needs.
func (c *checker) checkWindow() {
	w := c.config.Window
	if w == nil {
		return
	}
	c.field("window", w.Validate())
	if w.Validate() == nil && !w.Fits(protocol.MinDrillSeconds, run.DefaultTimings) {
		c.bad("window", "no drill can ever run in it: the shortest, of %d s, takes up to %.0f s from its start until all is put back. Make the window longer",
			protocol.MinDrillSeconds, run.Span(protocol.MinDrillSeconds, run.DefaultTimings).Seconds())
	}
}

// ParsePrefix reads an address or a prefix. A prefix that could be read in two
// ways is refused.
func ParsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return p, fmt.Errorf("%q is no address or prefix: write it as in 192.0.2.77, 192.0.2.0/24 or 2001:db8::/32", s)
	case p.Addr().Is4In6():
		return p, fmt.Errorf("%q is IPv4 inside IPv6: write it as IPv4", s)
	case p != p.Masked():
		return p, fmt.Errorf("%q has bits set beyond its length: did you mean %s?", s, p.Masked())
	}
	return p, nil
}

// looksLikeAddress tells what was meant as an address, well-formed or not, from
// what was meant as a name.
func looksLikeAddress(s string) bool {
	if strings.ContainsAny(s, "/:") {
		return !strings.Contains(s, "/") || strings.ContainsAny(s[:strings.Index(s, "/")], ".:")
	}
	return s != "" && strings.Trim(s, "0123456789.") == "" && strings.Contains(s, ".") || net.ParseIP(s) != nil
}

func sorted[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

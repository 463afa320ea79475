package hedge

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/hedge/endpoints"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/coredns/coredns/plugin/pkg/parse"
	pkgtls "github.com/coredns/coredns/plugin/pkg/tls"
	"github.com/coredns/coredns/plugin/pkg/transport"

	"github.com/miekg/dns"
)

const pluginName = "hedge"

var log = clog.NewWithPlugin(pluginName)

func init() { plugin.Register(pluginName, setup) }

// maxTargets of one hedge, as many as forward has.
const maxTargets = 15

func setup(c *caddy.Controller) error {
	all, err := parseAll(c)
	if err != nil {
		return plugin.Error(pluginName, err)
	}
	mine, _ := holders.Options(c)
	h := &Hedge{}
	for i, o := range all {
		o.key = fmt.Sprintf("%s %s %d", strings.Join(c.ServerBlockKeys, " "), o.from, i)
		g := newGroup(o)
		h.groups = append(h.groups, g)
		for _, t := range o.targets {
			if t.static() {
				g.metricsOf(t.key(t.addr)) // so that the first failure is seen as an increase
			}
		}
	}
	mine.groups = append(mine.groups, h.groups...)
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		h.Next = next
		return h
	})
	control.Provide(c, provider)
	return nil
}

func parseAll(c *caddy.Controller) ([]*options, error) {
	var all []*options
	listeners := listenersOf(c)
	for c.Next() {
		o, err := parseOne(c)
		if err != nil {
			return nil, err
		}
		o.listeners, o.zones = listeners, plugin.OriginsFromArgsOrServerBlock(nil, c.ServerBlockKeys)
		if err := o.complete(); err != nil {
			return nil, c.Err(err.Error())
		}
		for _, other := range all {
			if other.from == o.from && len(other.except) == 0 {
				return nil, c.Errf("%s is hedged twice in one server block: the second would never be asked", o.from)
			}
		}
		all = append(all, o)
	}
	return all, nil
}

// listenersOf says where the server block listens.
func listenersOf(c *caddy.Controller) []listener {
	cfg := dnsserver.GetConfig(c)
	var out []listener
	for _, key := range c.ServerBlockKeys {
		scheme, rest := parse.Transport(key)
		if scheme != transport.DNS && scheme != transport.TLS {
			continue
		}
		port := cfg.Port
		if at := strings.LastIndex(rest, ":"); at >= 0 {
			port = rest[at+1:]
		} else if scheme == transport.TLS {
			port = transport.TLSPort
		} else if port == "" {
			port = dnsserver.Port
		}
		out = append(out, listener{hosts: cfg.ListenHosts, port: port})
	}
	return out
}

func parseOne(c *caddy.Controller) (*options, error) {
	args := c.RemainingArgs()
	if len(args) < 2 {
		return nil, c.Err("want a zone and upstreams: hedge FROM TO...")
	}
	o := &options{
		expire: defaultExpire, maxAge: defaultMaxAge, maxConcurrent: defaultMaxConcurrent,
		tlsConfig: &tls.Config{MinVersion: tls.VersionTLS12}, node: os.Getenv("NODE_NAME"),
	}
	zones := plugin.Host(args[0]).NormalizeExact()
	if len(zones) != 1 {
		return nil, c.Errf("%q is no zone, or more than one", args[0])
	}
	o.from = zones[0]
	root := dnsserver.GetConfig(c).Root
	var err error
	if o.targets, err = parseTargets(args[1:], root); err != nil {
		return nil, c.Err(err.Error())
	}
	if len(o.targets) > maxTargets {
		return nil, c.Errf("%d upstreams are more than the %d that one hedge takes", len(o.targets), maxTargets)
	}
	seen := make(map[string]bool)
	for c.NextBlock() {
		word := c.Val()
		if seen[word] && word != "except" {
			return nil, c.Errf("%s is given twice", word)
		}
		seen[word] = true
		if err := o.option(word, c.RemainingArgs(), root); err != nil {
			return nil, c.Errf("%s: %v", word, err)
		}
	}
	return o, nil
}

// elsewhere says of forward's words what hedge has instead.
var elsewhere = map[string]string{
	"max_fails":                        "hedge ejects by its own rules, which are no knobs",
	"health_check":                     "hedge probes with the zone's own name; probe NAME [TYPE] is another",
	"policy":                           "use random or sequential",
	"failover":                         "hedge always asks another upstream after SERVFAIL and REFUSED",
	"next":                             "hedge has one answer for a zone",
	"next_on_nodata":                   "hedge has one answer for a zone",
	"failfast_all_unhealthy_upstreams": "hedge always asks at least one",
	"max_connect_attempts":             "hedge has a budget for what it asks again: a tenth of the questions",
	"max_idle_conns":                   "hedge keeps 8 connections to an upstream at most",
	"read_timeout":                     "deadline is for the question as a whole",
	"doh_method":                       "hedge asks over plain DNS and DNS over TLS",
	"source_address":                   "hedge leaves the source address to the system",
}

const words = "except, force_tcp, prefer_udp, expire, max_age, max_concurrent, policy, deadline, probe, tls, tls_servername, resolver, fallback, kubeconfig, node, zone, snapshot"

func (o *options) option(word string, args []string, root string) (err error) {
	want := func(least, most int, what string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("want %s, got %d words", what, len(args))
		}
		return nil
	}
	switch word {
	case "except":
		if err := want(1, 1<<16, "zones"); err != nil {
			return err
		}
		for _, a := range args {
			zones := plugin.Host(a).NormalizeExact()
			if len(zones) == 0 {
				return fmt.Errorf("%q is no zone", a)
			}
			o.except = append(o.except, zones...)
		}
	case "force_tcp", "prefer_udp":
		if err := want(0, 0, "nothing"); err != nil {
			return err
		}
		o.forceTCP = o.forceTCP || word == "force_tcp"
		o.preferUDP = o.preferUDP || word == "prefer_udp"
	case "expire":
		o.expire, err = duration(args, time.Second, time.Hour)
	case "max_age":
		o.maxAge, err = duration(args, time.Second, 24*time.Hour)
	case "deadline":
		o.deadline, err = duration(args, 100*time.Millisecond, 30*time.Second)
	case "max_concurrent":
		if err := want(1, 1, "a number"); err != nil {
			return err
		}
		if o.maxConcurrent, err = strconv.Atoi(args[0]); err != nil || o.maxConcurrent < 1 || o.maxConcurrent > 1<<20 {
			return fmt.Errorf("%q: use 1 to %d", args[0], 1<<20)
		}
	case "policy":
		if err := want(1, 1, "random or sequential"); err != nil {
			return err
		}
		if args[0] != "random" && args[0] != "sequential" {
			return fmt.Errorf("%q: use random (of two, the faster one: the default) or sequential (the first that is well)", args[0])
		}
		o.sequential = args[0] == "sequential"
	case "probe":
		if err := want(1, 2, "a name and perhaps a type"); err != nil {
			return err
		}
		if _, ok := dns.IsDomainName(args[0]); !ok {
			return fmt.Errorf("%q is no name", args[0])
		}
		o.probe = probeQuestion{dns.CanonicalName(args[0]), dns.TypeSOA}
		if len(args) == 2 {
			t, ok := dns.StringToType[strings.ToUpper(args[1])]
			if !ok || t == dns.TypeAXFR || t == dns.TypeIXFR || t == dns.TypeOPT {
				return fmt.Errorf("%q is no type to probe with: use SOA, NS, A or another type of records", args[1])
			}
			o.probe.qtype = t
		}
	case "tls":
		if err := want(0, 3, "at most three files"); err != nil {
			return err
		}
		for i, a := range args {
			if !filepath.IsAbs(a) {
				args[i] = filepath.Join(root, a)
			}
		}
		if o.tlsConfig, err = pkgtls.NewTLSConfigFromArgs(args...); err != nil {
			return err
		}
		o.tlsGiven = true
	case "tls_servername":
		if err := want(1, 1, "a name"); err != nil {
			return err
		}
		o.tlsServerName = args[0]
	case "resolver":
		if err := want(1, maxTargets, "addresses"); err != nil {
			return err
		}
		for _, a := range args {
			addr, err := addressOf(a)
			if err != nil {
				return err
			}
			o.resolvers = append(o.resolvers, addr.String())
		}
	case "fallback":
		if err := want(1, maxTargets, "addresses"); err != nil {
			return err
		}
		for _, a := range args {
			addr, err := addressOf(a)
			if err != nil {
				return err
			}
			o.fallback = append(o.fallback, addr)
		}
	case "kubeconfig":
		if err := want(1, 2, "a file and perhaps a context"); err != nil {
			return err
		}
		if o.kube.Kubeconfig = args[0]; !filepath.IsAbs(args[0]) {
			o.kube.Kubeconfig = filepath.Join(root, args[0])
		}
		if len(args) == 2 {
			o.kube.Context = args[1]
		}
	case "node", "zone":
		if err := want(1, 1, "a name"); err != nil {
			return err
		}
		if word == "node" {
			o.node = args[0]
		} else {
			o.zone = args[0]
		}
	case "snapshot":
		if err := want(1, 1, "a file"); err != nil {
			return err
		}
		if o.snapshot = args[0]; !filepath.IsAbs(args[0]) {
			o.snapshot = filepath.Join(root, args[0])
		}
	default:
		if instead, ok := elsewhere[word]; ok {
			return fmt.Errorf("this is forward's: %s", instead)
		}
		return fmt.Errorf("no such option: there are %s", words)
	}
	return err
}

func duration(args []string, least, most time.Duration) (time.Duration, error) {
	if len(args) != 1 {
		return 0, fmt.Errorf("want one duration, as in %s", least)
	}
	d, err := time.ParseDuration(args[0])
	if err != nil || d < least || d > most {
		return 0, fmt.Errorf("%q: use a duration from %s to %s", args[0], least, most)
	}
	return d, nil
}

func addressOf(word string) (netip.AddrPort, error) {
	t, err := parseTarget(word, "")
	if err != nil || !t.static() || t.tls {
		return netip.AddrPort{}, fmt.Errorf("%q is no address: write IP[:PORT]", word)
	}
	return t.addr, nil
}

// complete checks what belongs together, and fills in what was not said.
func (o *options) complete() error {
	if o.forceTCP && o.preferUDP {
		return fmt.Errorf("force_tcp and prefer_udp contradict each other: keep one")
	}
	if o.maxAge < o.expire {
		return fmt.Errorf("max_age (%s) is less than expire (%s): a connection would never be idle for so long", o.maxAge, o.expire)
	}
	var overTLS, services, hosts, named bool
	static := make(map[string]bool)
	for _, t := range o.targets {
		overTLS = overTLS || t.tls
		named = named || t.serverName != "" && t.host == ""
		services = services || t.service != nil
		hosts = hosts || t.host != ""
		if t.static() {
			if o.own(t.addr) {
				return fmt.Errorf("%s is this server itself: every question would come back (a loop); name another server", t.text)
			}
			if static[t.key(t.addr)] {
				return fmt.Errorf("%s is named twice", t.text)
			}
			static[t.key(t.addr)] = true
		}
		if t.path != "" {
			if err := o.checkResolvConf(t); err != nil {
				return err
			}
		}
	}
	for _, a := range o.fallback {
		if o.own(a) {
			return fmt.Errorf("fallback %s is this server itself: every question would come back (a loop)", a)
		}
	}
	for _, only := range []struct {
		given bool
		word  string
		goes  bool
		with  string
	}{
		{o.tlsGiven, "tls", overTLS, "a tls:// upstream"},
		{o.tlsServerName != "", "tls_servername", overTLS, "a tls:// upstream"},
		{o.resolvers != nil, "resolver", hosts, "an upstream that is a host's name"},
		{o.fallback != nil, "fallback", services, "a kubernetes upstream"},
		{o.kube.Kubeconfig != "", "kubeconfig", services, "a kubernetes upstream"},
		{o.zone != "", "zone", services, "a kubernetes upstream"},
		{o.snapshot != "", "snapshot", services || hosts, "upstreams that are followed: kubernetes, or a host's name"},
	} {
		if only.given && !only.goes {
			return fmt.Errorf("%s goes with %s, and there is none", only.word, only.with)
		}
	}
	if o.tlsServerName != "" && named {
		return fmt.Errorf("tls_servername and tls://IP%%SERVERNAME contradict each other: keep one")
	}
	if o.deadline == 0 {
		o.deadline = defaultDeadline(o)
	}
	if o.probe.name == "" {
		o.probe = defaultProbe(o.scope())
	}
	return nil
}

// checkResolvConf refuses a file that leaves nobody to ask. Later changes of it
// are only warned of.
func (o *options) checkResolvConf(t *target) error {
	list, err := endpoints.ReadResolvConf(t.path)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !o.own(e.Addr) {
			return nil
		}
	}
	return fmt.Errorf("%s names this server itself (%s) and no other: every question would come back (a loop); give the file that has the servers beyond this one", t.text, list[0].Addr)
}

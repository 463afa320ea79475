package clients

import (
	"encoding/hex"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"

	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
)

const pluginName = "clients"

var log = clog.NewWithPlugin(pluginName)

func init() { plugin.Register(pluginName, setup) }

// Bounds of top.
const (
	DefaultTop = 20
	MaxTop     = 100
)

// options are what a Corefile says, in whichever of its server blocks. The zero
// value of each is: not said.
type options struct {
	max            int
	top            *int
	file           string
	names          string
	infrastructure []netip.Prefix
	blocks         map[int]bool // server blocks that have the plugin
}

func (o *options) size() int {
	if o.max == 0 {
		return DefaultMax
	}
	return o.max
}

func (o *options) topCount() int {
	if o.top == nil {
		return DefaultTop
	}
	return *o.top
}

func setup(c *caddy.Controller) error {
	o, first := holders.Options(c)
	if first {
		o.blocks = make(map[int]bool)
		provide(c)
		register()
	}
	if o.blocks[c.ServerBlockIndex] {
		return plugin.Error(pluginName, plugin.ErrOnce)
	}
	o.blocks[c.ServerBlockIndex] = true
	if err := parse(c, o); err != nil {
		return plugin.Error(pluginName, err)
	}

	h := &Clients{}
	c.OnStartup(func() error { // after the holders', which was added before
		h.process = Current()
		for _, server := range Servers(c) {
			ListenerOf(server) // so that its series are there from the start
		}
		return nil
	})
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		h.Next = next
		return h
	})
	return nil
}

// provide hangs what the process has to say on the control endpoint.
func provide(c *caddy.Controller) {
	control.Provide(c, control.Provider{Feature: protocol.FeatureClients, Routes: seenRoutes})
	control.Provide(c, control.Provider{Feature: protocol.FeatureRecordings, Routes: recordingRoutes, State: state})
}

func state(s *protocol.State) {
	p := Current()
	if p == nil {
		return
	}
	s.Recording = p.Recording(Now())
	s.LastAnswerMs = p.LastAnswerMs()
	s.ProbeMark = hex.EncodeToString(p.mark[:])
}

// Configured says whether the server block that c sets up has the plugin. It
// can be asked by the set-up of a plugin that comes later in the order of
// directives.
func Configured(c *caddy.Controller) bool {
	o := holders.Peek(c)
	return o != nil && o.blocks[c.ServerBlockIndex]
}

// Servers are the addresses of the server block that c set up, as they stand in
// the server label ("dns://:53"). It is for OnStartup: set-up may still change
// them.
func Servers(c *caddy.Controller) []string {
	var out []string
	of := *c
	for i := range c.ServerBlockKeys {
		of.ServerBlockKeyIndex = i
		cfg := dnsserver.GetConfig(&of)
		hosts := cfg.ListenHosts
		if i > 0 { // only the first key's are set at set-up; CoreDNS copies them
			of.ServerBlockKeyIndex = 0
			hosts = dnsserver.GetConfig(&of).ListenHosts
		}
		for _, h := range hosts {
			a, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(h, cfg.Port))
			if err != nil {
				continue // CoreDNS says so itself
			}
			if s := cfg.Transport + "://" + a.String(); !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

func parse(c *caddy.Controller, o *options) error {
	for n := 0; c.Next(); n++ {
		if n > 0 {
			return plugin.ErrOnce
		}
		if args := c.RemainingArgs(); len(args) != 0 {
			return c.Errf("%q: clients takes no arguments, only a block of options", args[0])
		}
		for c.NextBlock() {
			if err := parseOption(c, o); err != nil {
				return err
			}
		}
	}
	return nil
}

func parseOption(c *caddy.Controller, o *options) error {
	option, args := c.Val(), c.RemainingArgs()
	switch option {
	case "max":
		n, err := number(c, option, args, MinMax, MaxMax)
		if err != nil {
			return err
		}
		if o.max != 0 && o.max != n {
			return differs(c, option, strconv.Itoa(o.max), args[0])
		}
		o.max = n
	case "top":
		n, err := number(c, option, args, 0, MaxTop)
		if err != nil {
			return err
		}
		if o.top != nil && *o.top != n {
			return differs(c, option, strconv.Itoa(*o.top), args[0])
		}
		o.top = &n
	case "file":
		if len(args) != 1 {
			return c.Errf("file wants one path, where the table of clients is saved: got %d", len(args))
		}
		path := underRoot(c, args[0])
		if o.file != "" && o.file != path {
			return differs(c, option, o.file, path)
		}
		o.file = path
	case "names":
		if len(args) != 2 || args[0] != "hosts" {
			return c.Err("names wants the kind of file and its path: names hosts FILE")
		}
		path := underRoot(c, args[1])
		if o.names != "" && o.names != path {
			return differs(c, option, o.names, path)
		}
		o.names = path
	case "infrastructure":
		if len(args) == 0 {
			return c.Err("infrastructure wants prefixes of what is no client: infrastructure 10.0.0.0/24 2001:db8::1/128")
		}
		for _, a := range args {
			p, err := prefix(a)
			if err != nil {
				return c.Errf("infrastructure: %q is no prefix: write ADDRESS/BITS, or an address", a)
			}
			o.infrastructure = append(o.infrastructure, p)
		}
	default:
		return c.Errf("unknown option %q: there are max, top, file, names and infrastructure", option)
	}
	return nil
}

func differs(c *caddy.Controller, option, one, two string) error {
	return c.Errf("%s is %s in one place and %s in another, but all server blocks share one table: give it once", option, one, two)
}

func number(c *caddy.Controller, option string, args []string, least, most int) (int, error) {
	if len(args) != 1 {
		return 0, c.Errf("%s wants one number, %d to %d: got %d", option, least, most, len(args))
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < least || n > most {
		return 0, c.Errf("%s %s: use a number from %d to %d", option, args[0], least, most)
	}
	return n, nil
}

func prefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = Normal(a)
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err == nil && p.Addr().Is4In6() {
		p = netip.PrefixFrom(p.Addr().Unmap(), max(p.Bits()-96, 0))
	}
	return p.Masked(), err
}

// underRoot is path as the root plugin wants it.
func underRoot(c *caddy.Controller, path string) string {
	if root := dnsserver.GetConfig(c).Root; root != "" && !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	return filepath.Clean(path)
}

package control

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
)

const pluginName = "control"

var log = clog.NewWithPlugin(pluginName)

func init() { plugin.Register(pluginName, setup) }

// defaultCaller is who may call where the Corefile does not say.
const defaultCaller = "controller"

// maxSocketPath is the longest path that the kernel takes for a unix socket,
// less the suffix under which it is made before it gets its name.
const maxSocketPath = 107 - len(socketNew)

const unixScheme = "unix://"

// options are what the Corefile says.
type options struct {
	network string // "tcp" or "unix"
	address string // IP:PORT, :PORT or a path
	files   mtls.Files
	allow   map[string]bool // callers' names; nil on a unix socket
	socket  string          // path of a unix socket beside the address; "": none
}

func setup(c *caddy.Controller) error {
	o, err := parse(c)
	if err != nil {
		return plugin.Error(pluginName, err)
	}
	p := planOf(c)
	if p.options != nil {
		return plugin.Error(pluginName, c.Err("a process has one control endpoint: keep the directive in one server block and remove the others"))
	}
	p.options, p.controller = o, *c

	zeroMetrics([]string{"GET " + protocol.PathState, "GET " + protocol.PathEvents, "GET " + protocol.PathLive, "GET " + protocol.PathReady})
	watchStarts()
	var next, nextLocal *candidate
	c.OnStartup(func() (err error) {
		if next, err = endpoint.prepare(p); err == nil && o.socket != "" {
			p.local = p.beside()
			nextLocal, err = localEndpoint.prepare(p.local)
		}
		if err != nil {
			return plugin.Error(pluginName, err)
		}
		return nil
	})
	c.OnRestartFailed(func() error { endpoint.abandon(); localEndpoint.abandon(); return nil })
	c.OnShutdown(func() error { endpoint.retire(next); localEndpoint.retire(nextLocal); return nil })
	return nil
}

// watchStarts has the endpoint told of every instance that has started: only
// then does what its Corefile says take effect. Each set-up asks for it, since a
// reload by SIGUSR1 throws all hooks away first; caddy says that one is there
// already by a panic, and in no other way.
func watchStarts() {
	defer func() { _ = recover() }()
	caddy.RegisterEventHook(pluginName, func(event caddy.EventName, info any) error {
		if event != caddy.InstanceStartupEvent {
			return nil
		}
		inst, ok := info.(*caddy.Instance)
		if !ok {
			return nil
		}
		inst.StorageMu.RLock()
		p, _ := inst.Storage[planKey{}].(*plan)
		inst.StorageMu.RUnlock()
		if p != nil && p.options != nil {
			endpoint.commit(p, inst.Caddyfile())
			if p.local != nil {
				localEndpoint.commit(p.local, inst.Caddyfile())
			}
		}
		return nil
	})
}

func parse(c *caddy.Controller) (*options, error) {
	var o *options
	for c.Next() {
		if o != nil {
			return nil, plugin.ErrOnce
		}
		args := c.RemainingArgs()
		if len(args) != 1 {
			return nil, c.Errf("want one address: IP:PORT, or unix:///PATH")
		}
		var err error
		if o, err = parseAddress(args[0]); err != nil {
			return nil, c.Err(err.Error())
		}
		for c.NextBlock() {
			if err := parseOption(c, o); err != nil {
				return nil, err
			}
		}
		if err := o.complete(); err != nil {
			return nil, c.Err(err.Error())
		}
	}
	return o, nil
}

func parseAddress(s string) (*options, error) {
	if path, ok := strings.CutPrefix(s, unixScheme); ok {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("%q: a unix socket's path is absolute: unix:///run/firebreak/control.sock", s)
		}
		if len(path) > maxSocketPath {
			return nil, fmt.Errorf("%q: the path is longer than the %d bytes that the system takes: use a shorter one", s, maxSocketPath)
		}
		return &options{network: "unix", address: filepath.Clean(path)}, nil
	}
	addr := s
	if strings.HasPrefix(addr, ":") {
		addr = "[::]" + addr // every address
	}
	if _, err := netip.ParseAddrPort(addr); err != nil {
		return nil, fmt.Errorf("%q is no address: use IP:PORT, :PORT for every address, or unix:///PATH", s)
	}
	return &options{network: "tcp", address: s}, nil
}

func parseOption(c *caddy.Controller, o *options) error {
	word := c.Val()
	args := c.RemainingArgs()
	switch word {
	case "tls":
		if len(args) != 3 {
			return c.Err("tls wants three files: the certificate, its key, and the CA of the callers' certificates")
		}
		if o.files != (mtls.Files{}) {
			return c.Err("tls is given twice")
		}
		for i, path := range args {
			args[i] = underRoot(c, path)
		}
		o.files = mtls.Files{Cert: args[0], Key: args[1], CA: args[2]}
	case "allow":
		if len(args) == 0 {
			return c.Err("allow wants the names of callers, as they stand in their certificates")
		}
		if o.allow == nil {
			o.allow = make(map[string]bool)
		}
		for _, name := range args {
			if err := mtls.CheckName(name); err != nil {
				return c.Err(err.Error())
			}
			o.allow[name] = true
		}
	case "socket":
		if o.socket != "" {
			return c.Err("socket is given twice")
		}
		if len(args) != 1 || !strings.HasPrefix(args[0], unixScheme) {
			return c.Err("socket wants the unix socket's path: socket unix:///run/firebreak/control.sock")
		}
		local, err := parseAddress(args[0])
		if err != nil {
			return c.Err(err.Error())
		}
		o.socket = local.address
	default:
		return c.Errf("unknown property %q: there are tls, allow and socket", word)
	}
	return nil
}

// underRoot is path as the root plugin wants it.
func underRoot(c *caddy.Controller, path string) string {
	if root := dnsserver.GetConfig(c).Root; root != "" && !filepath.IsAbs(path) {
		return filepath.Join(root, path)
	}
	return path
}

// complete checks what belongs together, and fills in what was not said.
func (o *options) complete() error {
	if o.network == "unix" {
		if o.files != (mtls.Files{}) || o.allow != nil {
			return fmt.Errorf("a unix socket takes neither tls nor allow: who may open it is the file's owner and root")
		}
		if o.socket != "" {
			return fmt.Errorf("socket goes with an IP address; here the endpoint is a unix socket already")
		}
		return nil
	}
	if o.files == (mtls.Files{}) {
		return fmt.Errorf("%s needs tls CERT KEY CA: the endpoint is never plain on TCP, not even on loopback; for use without certificates give a unix:///PATH", o.address)
	}
	if o.allow == nil {
		o.allow = map[string]bool{defaultCaller: true}
	}
	return nil
}

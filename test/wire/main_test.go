// Package wire_test holds the two ways to the node cache to each other: a query
// that is answered from the sockets of package wire must get what CoreDNS's chain
// would have answered.
package wire_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	_ "firebreakdns.io/firebreak/plugin/clients"
	_ "firebreakdns.io/firebreak/plugin/control"
	_ "firebreakdns.io/firebreak/plugin/drill"
	_ "firebreakdns.io/firebreak/plugin/nodecache"
	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/bufsize"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/multisocket"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/shed"
	_ "github.com/coredns/coredns/plugin/whoami"

	"github.com/miekg/dns"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	caddy.Quiet, dnsserver.Quiet = true, true
	if os.Getenv("WIRE_LOG") == "" {
		clog.Discard()
	}
	if err := dnsserver.SetDirectives([]string{"multisocket", "bufsize", "bind", "control", "shed", "clients", "drill", "prometheus", "errors", "log", "rewrite", "nodecache", "forward", "whoami", "broken"}); err != nil {
		panic(err)
	}
	caddy.RegisterPlugin("broken", caddy.Plugin{ServerType: "dns", Action: func(c *caddy.Controller) error {
		for c.Next() {
			c.OnStartup(func() error { return fmt.Errorf("broken on purpose") })
		}
		return nil
	}})
	code := m.Run()
	if code == 0 {
		time.Sleep(100 * time.Millisecond)
		if err := goleak.Find(
			// They begin with the process and never end.
			goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
			goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
			// prometheus forgets its server when a reload fails.
			goleak.IgnoreAnyFunction("github.com/coredns/coredns/plugin/metrics.(*Metrics).OnStartup.func1"),
			// forward stops its proxies without waiting for them.
			goleak.IgnoreAnyFunction("github.com/coredns/coredns/plugin/pkg/proxy.(*Transport).connManager"),
		); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// start starts a CoreDNS; PORT in the Corefile is a free port of its own.
func start(t testing.TB, corefile string) (inst *caddy.Instance, port string) {
	t.Helper()
	var err error
	for range 5 { // one that was free may be taken by now
		port = freePort(t)
		if inst, err = caddy.Start(input(strings.ReplaceAll(corefile, "PORT", port))); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, inst) })
	return inst, port
}

// latest are the instances that replaced others by a reload.
var latest = map[*caddy.Instance]*caddy.Instance{}

func reload(t testing.TB, inst *caddy.Instance, corefile string) {
	t.Helper()
	at := inst
	if l := latest[inst]; l != nil {
		at = l
	}
	next, err := at.Restart(input(corefile))
	if err != nil {
		t.Fatal(err)
	}
	latest[inst] = next
}

func stop(t testing.TB, inst *caddy.Instance) {
	if l := latest[inst]; l != nil {
		inst = l
	}
	inst.ShutdownCallbacks()
	if err := inst.Stop(); err != nil {
		t.Error(err)
	}
	inst.Wait()
}

func input(corefile string) caddy.Input {
	return caddy.CaddyfileInput{Filepath: "Corefile", Contents: []byte(corefile), ServerTypeName: "dns"}
}

func freePort(t testing.TB) string {
	t.Helper()
	// Both: TCP as well must be free.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := net.ListenPacket("udp", l.Addr().String())
	if err != nil {
		return freePort(t)
	}
	defer p.Close()
	return fmt.Sprint(netip.MustParseAddrPort(l.Addr().String()).Port())
}

// onWire waits until the steering at an address is done.
func onWire(t testing.TB, addr string) {
	t.Helper()
	g := wire.Find(addr)
	if g == nil {
		t.Fatalf("no sockets at %s: have %v", addr, wire.Groups())
	}
	for range 300 {
		if g.Steered() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the packets to %s are not steered", addr)
}

// client is a socket that asks several servers.
type client struct {
	t testing.TB
	c *net.UDPConn
}

func newClient(t testing.TB) *client {
	t.Helper()
	c, err := net.ListenUDP("udp", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &client{t, c}
}

// ask sends a packet and returns the answer, or nil when there is none. The answer
// must come from the address that was asked.
func (c *client) ask(addr string, packet []byte, wait time.Duration) []byte {
	c.t.Helper()
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.c.WriteToUDP(packet, to); err != nil {
		return nil
	}
	b := make([]byte, 65536)
	_ = c.c.SetReadDeadline(time.Now().Add(wait))
	for {
		n, from, err := c.c.ReadFromUDPAddrPort(b)
		if err != nil {
			return nil
		}
		asked := to.AddrPort()
		if netip.AddrPortFrom(from.Addr().Unmap(), from.Port()) != netip.AddrPortFrom(asked.Addr().Unmap(), asked.Port()) {
			c.t.Errorf("%s was asked and %s answered", asked, from)
			continue
		}
		return b[:n]
	}
}

func query(name string, qtype uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(name, qtype)
	return m
}

func pack(t testing.TB, m *dns.Msg) []byte {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

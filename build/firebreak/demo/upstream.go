package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"firebreakdns.io/firebreak/build/firebreak/client"
	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/version"
)

// The demo of an upstream: its clients, who ask for another name each time, so
// that every question goes upstream. So few that a busy machine's hiccups are no
// sign of anything to the run.
const (
	askers   = 8
	askEvery = 500 * time.Millisecond
	askFor   = 3 * time.Second // shorter than a stub waits in all

	hostUpstream2 = hostUpstream - 1
)

// errFelt is a demo in which clients noticed.
var errFelt = errors.New("clients noticed that an upstream died: that is not what should be")

// RunUpstream shows how an upstream dies behind a node cache, and returns the
// drill's report. The error says what was not as it should be; the report is there
// even so, if there is one.
func RunUpstream(ctx context.Context, o Options) (report *run.Report, err error) {
	if err := supported(); err != nil {
		return nil, err
	}
	coredns, err := find(programServer)
	if err != nil {
		return nil, err
	}
	controller, err := find(programController)
	if err != nil {
		return nil, err
	}
	w, err := newWorld()
	if err != nil {
		return nil, err
	}
	keep := o.Keep
	defer func() {
		if keep = keep || err != nil && ctx.Err() == nil; !keep {
			_ = os.RemoveAll(w.dir)
		} else {
			fmt.Fprintf(o.Story, "\nFiles and logs are kept in %s.\n", w.dir)
		}
	}()
	second, err := freePort(w.host(hostUpstream2))
	if err != nil {
		return nil, err
	}
	w.servers = w.servers[:2] // a fleet has two
	for i := range w.servers {
		w.servers[i].name = fmt.Sprintf("node%d", i+1)
	}
	d := &cacheDemo{demo: demo{options: o, world: w, herd: newHerd(w.dir)}, upstreams: []netip.AddrPort{w.upstream, second}}
	living, rest := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer d.herd.stop()
	defer clients.Wait() // they end first: they would only see servers leave
	defer rest()

	d.introduce()
	if err := d.start(coredns, controller); err != nil {
		return nil, err
	}
	c, err := client.New(client.Options{
		Controller: "https://" + w.api.String(), Certs: w.caller, Timeout: 10 * time.Second, Agent: "firebreak-demo/" + version.String(),
	})
	if err != nil {
		return nil, err
	}
	if err := d.ready(ctx, c); err != nil {
		return nil, err
	}
	for i := range askers {
		clients.Go(func() { d.ask(living, i) })
	}
	if !pause(ctx, settle) {
		return nil, ctx.Err()
	}
	return d.lose(ctx, c)
}

// cacheDemo is a demo with a node cache in front of two upstreams.
type cacheDemo struct {
	demo
	upstreams   []netip.AddrPort
	asked, lost atomic.Int64
}

func (d *cacheDemo) introduce() {
	d.say("%s", d.bold("What happens to your clients when a server dies that their node cache asks?"))
	d.say("")
	d.say("If the cache notices before they do: nothing. A drill tries it: what the cache sends to one")
	d.say("of its upstreams vanishes for some seconds, and you see what its clients had meanwhile.")
	d.say("")
	d.say("On this machine, in %s (loopback; nothing else is touched), start", d.world.network)
	d.say("  %-16s %s and %s: CoreDNS with `nodecache` and `hedge`", "2 node caches", d.world.servers[0].name, d.world.servers[1].name)
	d.say("  %-16s %s and %s", "2 upstreams", d.upstreams[0], d.upstreams[1])
	d.say("  %-16s of %s, with another name each time: nothing is answered from the cache", fmt.Sprintf("%d clients", askers), d.world.servers[0].name)
	d.say("")
}

// start starts the upstreams, the caches and the controller.
func (d *cacheDemo) start(coredns, controller string) error {
	corefiles := map[string]string{}
	for i, at := range d.upstreams {
		d.world.upstream = at
		corefiles[fmt.Sprintf("upstream%d", i+1)] = d.world.upstreamCorefile()
	}
	for _, s := range d.world.servers {
		corefiles[s.name] = d.world.cacheCorefile(s, d.upstreams)
	}
	return d.startAll(coredns, controller, corefiles)
}

// lose runs the drill and tells what came of it.
func (d *cacheDemo) lose(ctx context.Context, c *client.Client) (*run.Report, error) {
	gone := d.upstreams[0].String()
	d.say("Now %s loses %s for %d seconds:", d.world.servers[0].name, d.bold(gone), drillSeconds)
	d.say("")
	r, err := c.Start(ctx, d.world.servers[0].name, view.DrillRequest{Upstream: gone, DurationSeconds: drillSeconds, Reason: "firebreak demo --upstream"})
	if err != nil {
		return nil, err
	}
	if r, err = d.options.Follow(ctx, c, r); err != nil {
		return r, err
	}
	if slices.Contains(busy, r.Reason) {
		return r, &busyError{r.Reason, r.Message}
	}
	page, err := d.savePage(r)
	if err != nil {
		return r, err
	}
	asked, lost := d.asked.Load(), d.lost.Load()
	d.say("")
	d.say("The report says: %s.", r.Message)
	d.say("The clients say: of %d questions %d were not answered.", asked, lost)
	d.say("")
	d.say("The report as a page: %s", page)
	if r.Outcome != run.Passed || lost > 0 {
		return r, errFelt
	}
	return r, nil
}

// ask is one client of the first cache.
func (d *cacheDemo) ask(ctx context.Context, i int) {
	from := &net.UDPAddr{IP: d.world.host(byte(hostClients + i)).AsSlice()}
	c := dns.Client{Timeout: askFor, Dialer: &net.Dialer{Timeout: askFor, LocalAddr: from}}
	for n := 0; pause(ctx, askEvery); n++ {
		m := new(dns.Msg)
		m.SetQuestion(fmt.Sprintf("page-%d.client-%d.%s.", n, i, zone), dns.TypeA)
		r, _, err := c.ExchangeContext(ctx, m, d.world.servers[0].dns.String())
		if ctx.Err() != nil {
			return
		}
		d.asked.Add(1)
		if err != nil || r.Rcode != dns.RcodeSuccess {
			d.lost.Add(1)
		}
	}
}

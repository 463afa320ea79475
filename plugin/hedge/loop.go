package hedge

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"firebreakdns.io/firebreak/plugin/hedge/engine"
	"firebreakdns.io/firebreak/plugin/hedge/exchange"

	"github.com/miekg/dns"
)

const (
	// loopLabel begins the name that is asked to find out whether an upstream sends
	// our questions back to us.
	loopLabel = "firebreak-loop-"
	// loopAfter is when a new upstream is asked that: this server must answer by
	// then.
	loopAfter = time.Second
	// loopWithin is how long a question may take to come back.
	loopWithin = 2 * time.Second
	// loopAgain is when an upstream that did is asked again.
	loopAgain = 30 * time.Second
)

// loops are the names that are being asked. They are the process's: a question
// may come back to another server block.
var loops = &loopNames{names: make(map[string]chan struct{})}

type loopNames struct {
	mu    sync.Mutex
	names map[string]chan struct{}
}

// begin makes a name under zone that nobody else asks for; back gets a value when
// it comes back.
func (l *loopNames) begin(zone string) (name string, back chan struct{}) {
	var random [12]byte
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	label := loopLabel + hex.EncodeToString(random[:])
	name, back = label+"."+zone, make(chan struct{}, 1)
	if zone == "." {
		name = label + "."
	}
	if _, ok := dns.IsDomainName(name); !ok {
		name = label + "." // the zone's name is too long for one more label
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names[label] = back
	return name, back
}

func (l *loopNames) end(name string) {
	label, _, _ := strings.Cut(name, ".")
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.names, label)
}

// heard says whether a question is one of ours that came back.
func (l *loopNames) heard(q dns.Question) bool {
	if q.Qtype != dns.TypeHINFO || len(q.Name) < len(loopLabel) || !strings.EqualFold(q.Name[:len(loopLabel)], loopLabel) {
		return false
	}
	label, _, _ := strings.Cut(strings.ToLower(q.Name), ".")
	l.mu.Lock()
	back := l.names[label]
	l.mu.Unlock()
	if back == nil {
		return false
	}
	select {
	case back <- struct{}{}:
	default:
	}
	return true
}

// lookForLoop finds out whether what is asked of an upstream comes back, and goes
// on asking as long as it does.
func (g *group) lookForLoop(key string) {
	wait := loopAfter
	for {
		select {
		case <-time.After(wait):
		case <-g.done:
			return
		}
		peer := g.peer(key)
		if peer == nil {
			return
		}
		loops := g.comesBack(peer, key)
		if g.core.Loops(key, loops) {
			if loops {
				log.Errorf("%s: what is asked of %s comes back to this server: it is a loop, and not asked. Remove it from the upstreams, or what sends its questions here", g.options.from, key)
			} else {
				log.Infof("%s: what is asked of %s does not come back any more: it is asked again", g.options.from, key)
			}
			value := 0.0
			if loops {
				value = 1
			}
			loopsGauge.WithLabelValues(g.options.from, key).Set(value)
			changed()
		}
		if !loops {
			return
		}
		wait = loopAgain
	}
}

func (g *group) comesBack(p *peer, key string) bool {
	name, back := loops.begin(g.options.from)
	defer loops.end(name)
	q, err := exchange.NewQuery(new(dns.Msg).SetQuestion(name, dns.TypeHINFO))
	if err != nil {
		return false
	}
	askedTotal.WithLabelValues(g.options.from, key, g.options.over(key).String(), "loop").Inc()
	answered := make(chan struct{}, 1)
	ctx, cancel := context.WithTimeout(context.Background(), loopWithin)
	defer cancel()
	if !g.spawn(func() {
		if g.options.over(key) == engine.UDP {
			if d, err := p.Send(q); err == nil {
				defer d.Close()
				_ = d.Receive(time.Now().Add(loopWithin), func([]byte) {}) // only that it is over matters
			}
		} else {
			_ = p.Ask(ctx, q, false, func([]byte) {})
		}
		answered <- struct{}{}
	}) {
		return false
	}
	select {
	case <-back:
		return true
	case <-g.done:
		return false
	case <-answered:
	case <-ctx.Done():
	}
	select { // it may have been both
	case <-back:
		return true
	default:
		return false
	}
}

// listener is where a server block listens.
type listener struct {
	hosts []string // none, or "": everywhere
	port  string
}

// isSelf says whether an upstream's address is one of ours.
func isSelf(listeners []listener, a netip.AddrPort) bool {
	for _, l := range listeners {
		if l.port != strconv.Itoa(int(a.Port())) {
			continue
		}
		if len(l.hosts) == 0 && isLocal(a.Addr()) {
			return true
		}
		for _, h := range l.hosts {
			own, err := netip.ParseAddr(h)
			switch {
			case h == "", err == nil && own.IsUnspecified():
				if isLocal(a.Addr()) {
					return true
				}
			case err == nil && own.Unmap() == a.Addr().Unmap():
				return true
			}
		}
	}
	return false
}

// isLocal says whether an address is one of this machine's.
func isLocal(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	found, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, f := range found {
		if n, ok := f.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == a.Unmap() {
				return true
			}
		}
	}
	return false
}

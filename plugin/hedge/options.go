package hedge

import (
	"crypto/tls"
	"net/netip"
	"slices"
	"strings"
	"time"

	"firebreakdns.io/firebreak/plugin/hedge/engine"
	"firebreakdns.io/firebreak/plugin/hedge/kube"

	"github.com/coredns/coredns/plugin"

	"github.com/miekg/dns"
)

const (
	// clusterDeadline is shorter than the first timeout even of stubs with
	// timeout:1, so that they do not begin retries of their own.
	clusterDeadline = 900 * time.Millisecond
	// worldDeadline is for the rest of the world, which has slow authorities.
	worldDeadline = 4 * time.Second

	defaultExpire = 10 * time.Second // forward's
	// defaultMaxAge bounds how long a connection stays with one of the servers
	// behind a balancer.
	defaultMaxAge = time.Minute
	// defaultMaxConcurrent bounds memory with upstreams that are slow: about 20 KB a
	// question.
	defaultMaxConcurrent = 2000
)

// options are what one hedge of a Corefile says.
type options struct {
	key       string // names it across reloads
	from      string
	zones     []string // the server block's
	except    []string
	targets   []*target
	listeners []listener

	forceTCP      bool
	preferUDP     bool
	sequential    bool
	expire        time.Duration
	maxAge        time.Duration
	deadline      time.Duration
	maxConcurrent int
	probe         probeQuestion
	tlsConfig     *tls.Config
	tlsServerName string
	tlsGiven      bool
	resolvers     []string
	fallback      []netip.AddrPort
	kube          kube.Options
	node, zone    string
	snapshot      string
}

func (o *options) matches(name string) bool {
	if !plugin.Name(o.from).Matches(name) {
		return false
	}
	for _, e := range o.except {
		if plugin.Name(e).Matches(name) && dns.CanonicalName(name) != o.from {
			return false
		}
	}
	return true
}

// life is how long a question goes on behind the client's deadline.
func (o *options) life() time.Duration { return o.deadline + max(time.Second, o.deadline/2) }

func (o *options) prefer() engine.Transport {
	if o.forceTCP {
		return engine.TCP
	}
	return engine.UDP
}

// over is the transport that an upstream is asked over first.
func (o *options) over(key string) engine.Transport {
	if strings.HasPrefix(key, tlsPrefix) {
		return engine.TLS
	}
	return o.prefer()
}

// transports are all that an upstream is asked over.
func (o *options) transports(key string) []engine.Transport {
	if strings.HasPrefix(key, tlsPrefix) {
		return []engine.Transport{engine.TLS}
	}
	return []engine.Transport{engine.UDP, engine.TCP}
}

func (o *options) own(a netip.AddrPort) bool { return isSelf(o.listeners, a) }

// tlsFor is how a target's server proves who it is.
func (o *options) tlsFor(t *target, addr netip.AddrPort) *tls.Config {
	c := o.tlsConfig.Clone()
	switch {
	case t.serverName != "":
		c.ServerName = t.serverName
	case o.tlsServerName != "":
		c.ServerName = o.tlsServerName
	default:
		c.ServerName = addr.Addr().String()
	}
	c.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	return c
}

// scope are the zones that are asked for: FROM, or those of the server block where
// FROM is all that comes there.
func (o *options) scope() []string {
	if o.from == "." && len(o.zones) > 0 {
		return o.zones
	}
	return []string{o.from}
}

// defaultDeadline is by what is asked: the cluster's own zones, or the world.
func defaultDeadline(o *options) time.Duration {
	service := slices.ContainsFunc(o.targets, func(t *target) bool { return t.service != nil })
	own := plugin.Zones{"cluster.local.", "in-addr.arpa.", "ip6.arpa."}
	for _, zone := range o.scope() {
		if own.Matches(zone) == "" && (zone == "." || !service) {
			return worldDeadline
		}
	}
	return clusterDeadline
}

// defaultProbe is a zone's own name: what its servers can answer. The root has no
// more to ask for than its servers.
func defaultProbe(scope []string) probeQuestion {
	if scope[0] == "." {
		return probeQuestion{".", dns.TypeNS}
	}
	return probeQuestion{scope[0], dns.TypeSOA}
}

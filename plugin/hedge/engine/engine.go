// Package engine decides which upstream is asked, and when another one is: it is
// hedge without sockets and without a clock.
//
// A Core holds what is learnt of the upstreams of one zone. A View is the list
// that one Corefile has of them; two views share a core during a reload, and so
// the health that was learnt outlives it. View.Ask begins a Question; the shell
// does what its Step says and tells it what came of it (Heard) and that time has
// passed (Tick). A question goes on after its client has been answered, until
// every upstream that was asked has answered or is given up: only so is it known
// who was silent, and taken back when the answer came after all.
//
// Nothing here reads a clock or a random source: time is a parameter, and chance
// is a function that New is given, so that every story can be told again
// (testdata) and every promise can be tried on many (property_test.go).
package engine

import (
	"strings"
	"sync"
	"time"
)

// Time is a moment on a monotonic clock, since any fixed start.
type Time = time.Duration

// Transport is how an upstream is asked.
type Transport uint8

// A server of plain DNS has two transports, each with a health of its own. A
// server of DNS over TLS (RFC 7858) has that one.
const (
	UDP Transport = iota
	TCP
	TLS
	transports
)

// String is the transport's name in metrics and messages.
func (t Transport) String() string { return [...]string{"udp", "tcp", "tls"}[t] }

// Upstream is a server to ask.
type Upstream struct {
	// Key names it: "10.0.0.1:53", or "tls://10.0.0.1:853" over TLS alone.
	Key string
	// Tier orders upstreams: of those that are well, the lowest tier is asked.
	Tier int
}

// secure says whether the upstream is asked over TLS.
func (u Upstream) secure() bool { return strings.HasPrefix(u.Key, "tls://") }

// Core is what is learnt of the upstreams of one zone. It is safe for concurrent
// use; no method waits for anything but its lock.
type Core struct {
	mu      sync.Mutex
	chance  func(n int) int // uniform in [0, n)
	budget  budget
	servers map[string]*server
	turn    int // whose turn it is when all are ejected
	events  []Event
	denied  uint64
	// suspects says that a link is suspected that no step has told of yet.
	suspects bool
}

// server is one upstream. It is there as long as a view lists it.
type server struct {
	key   string
	views int
	links [transports]*link // nil: not asked so
	asked uint64            // questions sent, probes aside
	last  Time              // of the last of them
	loops bool              // what is sent to it comes back to us
}

// New is a core that knows nothing yet. chance(n) is uniform in [0, n).
func New(chance func(n int) int) *Core {
	return &Core{chance: chance, budget: budget{tokens: budgetHolds}, servers: make(map[string]*server)}
}

// Options are what a view wants.
type Options struct {
	// Prefer is the transport that upstreams of plain DNS are asked over first.
	Prefer Transport
	// Deadline after which the client is answered in any case.
	Deadline time.Duration
	// Life after which a question is given up. At least Deadline.
	Life time.Duration
}

// View is one Corefile's list of upstreams.
type View struct {
	core    *Core
	options Options
	members []member // replaced as a whole; under core.mu
}

type member struct {
	*server
	tier int
}

// prefer is the link that is asked first.
func (m member) prefer(t Transport) *link {
	if l := m.links[TLS]; l != nil {
		return l
	}
	return m.links[t]
}

// other is the link that is asked when the preferred one is not well, or nil.
func (m member) other(t Transport) *link {
	if m.links[TLS] != nil {
		return nil
	}
	return m.links[TCP-t]
}

// View makes an empty view.
func (c *Core) View(o Options) *View { return &View{core: c, options: o} }

// Replace sets the view's upstreams. What is known of those that stay is kept.
func (v *View) Replace(list []Upstream) {
	c := v.core
	c.mu.Lock()
	defer c.mu.Unlock()
	members := make([]member, 0, len(list))
	seen := make(map[string]bool, len(list))
	for _, u := range list {
		if seen[u.Key] {
			continue
		}
		seen[u.Key] = true
		s := c.servers[u.Key]
		if s == nil {
			s = &server{key: u.Key}
			if u.secure() {
				s.links[TLS] = newLink(s, TLS)
			} else {
				s.links[UDP], s.links[TCP] = newLink(s, UDP), newLink(s, TCP)
			}
			c.servers[u.Key] = s
		}
		s.views++
		members = append(members, member{s, u.Tier})
	}
	for _, m := range v.members {
		if m.views--; m.views == 0 {
			delete(c.servers, m.key)
		}
	}
	v.members = members
}

// Close gives the view's upstreams up.
func (v *View) Close() { v.Replace(nil) }

// Keys are the view's upstreams, in order.
func (v *View) Keys() []string {
	v.core.mu.Lock()
	defer v.core.mu.Unlock()
	keys := make([]string, len(v.members))
	for i, m := range v.members {
		keys[i] = m.key
	}
	return keys
}

// Loops notes whether what is sent to an upstream comes back to this server.
// Such an upstream is not asked.
func (c *Core) Loops(key string, loops bool) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[key]
	if s == nil || s.loops == loops {
		return false
	}
	s.loops = loops
	return true
}

// Event is a change of an upstream's health.
type Event struct {
	Key       string
	Transport Transport
	Ejected   bool // or else it is back
	Cause     Cause
	For       time.Duration // until its probe
}

// Events are the changes since the last call.
func (c *Core) Events() []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) == 0 {
		return nil
	}
	e := c.events
	c.events = nil
	return e
}

// Denied is how many questions would have been asked of one more upstream, had
// there been budget for it.
func (c *Core) Denied() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.denied
}

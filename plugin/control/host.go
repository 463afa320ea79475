package control

import (
	"fmt"
	"sync"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"

	"github.com/coredns/caddy"
)

// startWithin is how long a Corefile may take from opening its endpoint to
// serving. What has not started by then has failed; caddy tells only the old
// instance of that, and there may be none with an endpoint.
const startWithin = time.Minute

// endpoint is the process's control endpoint, and localEndpoint the socket beside
// it, where the Corefile has one.
var (
	endpoint      = &host{startWithin: startWithin}
	localEndpoint = &host{startWithin: startWithin}
)

// host carries the endpoint across reloads. A Corefile's endpoint is first
// prepared (its address is bound, so that a conflict fails the start) and takes
// effect with commit, when its instance serves. Until then the old one answers.
type host struct {
	startWithin time.Duration

	mu      sync.Mutex
	serving *server    // answers; nil: none
	next    *candidate // prepared; nil: none
}

// candidate is what a Corefile that is starting wants.
type candidate struct {
	plan    *plan
	service *service
	server  *server // the serving one, if the address stays
	timer   *time.Timer
}

// prepare binds what p wants, without answering there yet.
func (h *host) prepare(p *plan) (*candidate, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.prepareLocked(p)
}

func (h *host) prepareLocked(p *plan) (*candidate, error) {
	h.drop(h.next) // of a start that failed
	c := &candidate{plan: p}
	var source *mtls.Source
	if p.options.network == "tcp" {
		var err error
		if source, err = mtls.Open(p.options.files, mtls.KindServer, reportKeys); err != nil {
			return nil, err
		}
	}
	c.service = newService(p, source)
	if h.serving != nil && h.serving.is(p.options) {
		c.server = h.serving
	} else {
		s, err := listen(p.options)
		if err != nil {
			return nil, err
		}
		c.server = s
	}
	c.timer = time.AfterFunc(h.startWithin, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.next == c {
			log.Warningf("A Corefile with the endpoint %s did not start within %s: closing it", c.server, h.startWithin)
			h.drop(c)
		}
	})
	h.next = c
	return c, nil
}

// drop gives up what was prepared. h.mu is held.
func (h *host) drop(c *candidate) {
	if c == nil || h.next != c {
		return
	}
	h.next = nil
	c.timer.Stop()
	if c.server != h.serving {
		c.server.close()
	}
}

// commit makes p's endpoint the one that answers.
func (h *host) commit(p *plan, corefile caddy.Input) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.next
	if c == nil || c.plan != p {
		var err error
		if c, err = h.prepareLocked(p); err != nil {
			log.Errorf("The control endpoint is off: %v", err)
			return
		}
	}
	c.timer.Stop()
	h.next = nil
	c.service.ready = newReadiness(p, corefile)

	old := h.serving
	h.serving = c.server
	c.server.answer(c.service)
	if old != nil && old != c.server {
		old.close()
	}
	changes.announce()
}

// abandon gives up what was prepared, when a reload failed.
func (h *host) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(h.next)
}

// retire ends the endpoint of an instance that shuts down, unless a new one is
// about to take it over.
func (h *host) retire(c *candidate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c == nil {
		return
	}
	if h.next == c {
		h.drop(c)
		return
	}
	if h.next != nil || h.serving == nil || h.serving.current.Load().plan != c.plan {
		return
	}
	h.serving.close()
	h.serving = nil
}

// String is the address as the Corefile has it.
func (o *options) String() string {
	if o.network == "unix" {
		return "unix://" + o.address
	}
	return fmt.Sprintf("https://%s", o.address)
}

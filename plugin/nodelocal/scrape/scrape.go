// Package scrape has Prometheus read the newest of the processes that share the
// metrics' address, as two generations of a pod on the host's network do for a
// while. CoreDNS's own listener shares it with everybody, so that a scrape would
// reach one or the other, and counters would seem to begin anew each time.
//
// A listener of ours stands beside the one of plugin prometheus and answers the
// same. It stays open over reloads, and the newest process has the kernel give it
// all connections (package steer). If it closes, the kernel falls back to
// prometheus's own. Where prometheus serves over TLS it is left alone.
package scrape

import (
	"context"
	"errors"
	"net"
	"net/http"
	"reflect"
	"sync"
	"time"

	"firebreakdns.io/firebreak/plugin/clients/tenure"
	"firebreakdns.io/firebreak/plugin/pkg/blocks"
	"firebreakdns.io/firebreak/plugin/pkg/steer"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin/metrics"
	clog "github.com/coredns/coredns/plugin/pkg/log"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

var log = clog.NewWithPlugin("nodelocal")

// Times of an HTTP server, as prometheus's own has them.
const (
	within   = 5 * time.Second
	endAfter = time.Second // scrapes that go on when the process ends
)

// holders are the Corefiles that want it.
var holders = tenure.New(apply)

// wish is what one Corefile wants: its addresses of metrics.
type wish struct {
	controller *caddy.Controller
	addrs      map[string]*prometheus.Registry // nil: not read yet
}

var (
	mu   sync.Mutex
	open = make(map[string]*server)
)

// server answers at one address.
type server struct {
	listener *steer.Listener
	http     *http.Server
	stop     chan struct{}
	taking   sync.Mutex
}

// Beside has the metrics of c's Corefile be served beside plugin prometheus, from
// its start to its end.
func Beside(c *caddy.Controller) {
	if w, first := holders.Options(c); first {
		w.controller = c
	}
}

// Take has all connections come to this process. It is for the newest one, and to be
// called again when another one joined or left.
func Take() {
	mu.Lock()
	defer mu.Unlock()
	for addr, s := range open {
		go s.take(addr)
	}
}

// apply opens and closes listeners as the live Corefiles want, oldest first. An
// address stays open until nobody wants it, so that a reload that fails changes
// nothing.
func apply(live []*wish) {
	wanted := make(map[string]*prometheus.Registry)
	for _, w := range live {
		if w.addrs == nil {
			w.addrs = addresses(w.controller)
		}
		for addr, reg := range w.addrs {
			wanted[addr] = reg
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for addr, s := range open {
		if wanted[addr] == nil {
			delete(open, addr)
			s.close()
		}
	}
	for addr, reg := range wanted {
		if open[addr] != nil {
			continue
		}
		s, err := serve(addr, reg)
		if err != nil { // prometheus says so too, if it cannot listen either
			log.Warningf("A scrape of %s may reach an older process while there is one: %v", addr, err)
			continue
		}
		open[addr] = s
	}
}

// addresses are those at which prometheus serves without TLS.
func addresses(c *caddy.Controller) map[string]*prometheus.Registry {
	out := make(map[string]*prometheus.Registry)
	for _, b := range blocks.All(c) {
		if m, ok := b.Handler("prometheus").(*metrics.Metrics); ok && !overTLS(m) {
			out[m.Addr] = m.Reg
		}
	}
	return out
}

// overTLS says whether m serves over TLS, which it tells nobody. Where it cannot be
// known it is taken to.
func overTLS(m *metrics.Metrics) bool {
	path := reflect.ValueOf(m).Elem().FieldByName("tlsConfigPath")
	return !path.IsValid() || path.Kind() != reflect.String || path.String() != ""
}

func serve(addr string, reg *prometheus.Registry) (*server, error) {
	l, err := steer.Listen(addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	s := &server{
		listener: l,
		http:     &http.Server{Handler: mux, ReadTimeout: within, WriteTimeout: within, IdleTimeout: within},
		stop:     make(chan struct{}),
	}
	go func() { _ = s.http.Serve(l) }() // ends with close
	return s, nil
}

func (s *server) take(addr string) {
	s.taking.Lock()
	defer s.taking.Unlock()
	if err := s.listener.Take(s.stop); err != nil && !errors.Is(err, net.ErrClosed) {
		log.Debugf("A scrape of %s may reach another process: %v", addr, err)
	}
}

func (s *server) close() {
	close(s.stop)
	ctx, cancel := context.WithTimeout(context.Background(), endAfter)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
}

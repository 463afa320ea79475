package control

import (
	"context"
	"errors"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
	"firebreakdns.io/firebreak/plugin/pkg/steer"
)

// Times that a caller may take. None is a knob: an honest caller is on the same
// network and needs a thousandth of them.
const (
	headerWithin   = 5 * time.Second
	readWithin     = 15 * time.Second // header and body
	writeWithin    = 30 * time.Second
	idleFor        = 2 * time.Minute // between two requests: callers come every few seconds
	shutdownWithin = 2 * time.Second
	maxHeaderBytes = 16 << 10
	// tendEvery is how often the certificate files are looked at while nobody calls.
	tendEvery = 10 * time.Second
)

// server listens at one address. What answers there is swapped by reloads.
type server struct {
	network, address string
	ln               net.Listener
	current          atomic.Pointer[service] // nil until the first answer()
	gate             *gate
	http             *http.Server
	bodies           *slots // long request bodies
	streams          *slots // event streams
	done             chan struct{}
	once             sync.Once
}

// listen binds the address. Connections wait until answer is called.
func listen(o *options) (*server, error) {
	var ln net.Listener
	var err error
	if o.network == "unix" {
		ln, err = listenUnix(o.address)
	} else {
		// Shared, as all of CoreDNS's are: a new pod of a host network starts
		// before the old one is gone. See take.
		ln, err = steer.Listen(o.address)
	}
	if err != nil {
		return nil, err
	}
	s := &server{
		network: o.network,
		address: o.address,
		ln:      ln,
		bodies:  newSlots(maxLongBodies, maxLongBodiesPerCaller),
		streams: newSlots(maxStreams, maxStreamsPerCaller),
		done:    make(chan struct{}),
	}
	s.gate = newGate(ln)
	if o.network == "tcp" {
		s.gate.tls = mtls.ServerConfig(func() *mtls.Keys { return s.current.Load().source.Keys() })
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	s.http = &http.Server{
		Handler:           s,
		Protocols:         protocols,
		ReadHeaderTimeout: headerWithin,
		ReadTimeout:       readWithin,
		WriteTimeout:      writeWithin,
		IdleTimeout:       idleFor,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return withPeer(ctx, c) },
		ErrorLog:          stdlog.New(io.Discard, "", 0), // callers' broken connections; what matters is counted and audited
	}
	return s, nil
}

// is says whether it already listens where o wants to.
func (s *server) is(o *options) bool { return s.network == o.network && s.address == o.address }

// String is where it listens.
func (s *server) String() string {
	return (&options{network: s.network, address: s.address}).String()
}

// answer has svc answer from now on.
func (s *server) answer(svc *service) {
	if s.current.Swap(svc) != nil {
		return
	}
	log.Infof("Control endpoint on %s (%s)", s, s.ln.Addr())
	go s.gate.run()
	go func() { _ = s.http.Serve(s.gate) }() // ends with close
	go s.tend()
	if l, ok := s.ln.(*steer.Listener); ok {
		go s.take(l)
	}
}

// take has all new calls come here, where another process shares the address: an
// older one, which is about to end. An order belongs to who goes on. Connections that
// are open stay where they are, and the boot id keeps their calls apart.
func (s *server) take(l *steer.Listener) {
	if err := l.Take(s.done); err != nil && !errors.Is(err, net.ErrClosed) {
		log.Debugf("Calls to %s may reach another process that shares the address: %v", s, err)
	}
}

// tend looks after the certificate files while nobody calls, so that a broken
// one is known before it is needed.
func (s *server) tend() {
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	var svc *service
	var generation uint64
	for {
		if now := s.current.Load(); now.source != nil {
			keys := now.source.Keys()
			certificateExpiry.Set(float64(keys.Leaf.NotAfter.Unix()))
			if now == svc && keys.Generation != generation {
				log.Infof("New certificate from %s, valid until %s", now.source.Files().Cert, keys.Leaf.NotAfter.UTC().Format(time.RFC3339))
			}
			if left := time.Until(keys.Leaf.NotAfter); now != svc && left < 0 {
				log.Warningf("%s: %v", now.source.Files().Cert, mtls.Expired(keys.Leaf))
			}
			svc, generation = now, keys.Generation
		}
		select {
		case <-ticker.C:
		case <-s.done:
			return
		}
	}
}

// reportKeys tells of certificate files that cannot be used.
func reportKeys(err error) {
	certificateFailures.Inc()
	log.Warningf("%v", err)
}

// close stops listening, lets calls finish for a moment and then cuts them.
func (s *server) close() {
	s.once.Do(func() {
		close(s.done)
		s.gate.stop()
		if s.current.Load() == nil {
			return // nobody was ever let in
		}
		ctx, cancel := context.WithTimeout(context.Background(), shutdownWithin)
		defer cancel()
		if err := s.http.Shutdown(ctx); err != nil {
			_ = s.http.Close()
		}
	})
}

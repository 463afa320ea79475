package fleet

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/steady"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/version"
)

// How often servers are looked at.
const (
	quietEvery = 5 * time.Second // while no drill is on
	drillEvery = time.Second     // while one is
)

// Options of a Fleet.
type Options struct {
	Log *slog.Logger
	// From is the fleet that this one takes over from: what is known of servers
	// that did not change is kept, so that a changed file is not a blind minute.
	From *Fleet
}

// Fleet watches the servers of a Config until it is closed.
type Fleet struct {
	config *Config
	log    *slog.Logger
	cancel context.CancelFunc
	done   sync.WaitGroup
	names  map[netip.Addr]string // of the fleet file

	servers []*server

	mu    sync.Mutex
	token string        // carried by our own probes
	fast  bool          // a drill is on
	woken chan struct{} // closed when fast changes
}

// Open starts to watch.
func Open(c *Config, o Options) (*Fleet, error) {
	f := &Fleet{config: c, log: o.Log, names: c.NameOf(), woken: make(chan struct{})}
	var calling *tls.Config
	if c.TLS != nil {
		source, err := mtls.Open(c.Files(c.TLS), mtls.KindClient, func(err error) { o.Log.Error("certificate not taken", "error", err) })
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		calling = mtls.ClientConfig(source.Keys, mtls.KindServer)
	}
	for _, s := range c.Servers {
		f.servers = append(f.servers, newServer(s, NewClient(s.Control, calling), o.From.find(s)))
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	for _, s := range f.servers {
		f.done.Go(func() { f.watch(ctx, s) })
	}
	return f, nil
}

// Close stops watching, and drops connections.
func (f *Fleet) Close() {
	f.cancel()
	f.done.Wait()
	for _, s := range f.servers {
		s.client.Close()
	}
}

// Config that the fleet was opened with.
func (f *Fleet) Config() *Config { return f.config }

func (f *Fleet) find(c ServerConfig) *server {
	if f == nil {
		return nil
	}
	for _, s := range f.servers {
		if s.config.Name == c.Name && s.config.Control == c.Control && s.config.Ready == c.Ready && slices.Equal(s.config.DNS, c.DNS) {
			return s
		}
	}
	return nil
}

// Drilling says that a drill is on: servers are looked at once a second, and
// our own probes carry its token. "" when none is.
func (f *Fleet) Drilling(on bool, token string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.token = token
	if f.fast != on {
		f.fast = on
		close(f.woken)
		f.woken = make(chan struct{})
	}
}

func (f *Fleet) pace() (every time.Duration, token string, woken chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	every = quietEvery
	if f.fast {
		every = drillEvery
	}
	return every, f.token, f.woken
}

func (f *Fleet) watch(ctx context.Context, s *server) {
	for {
		every, token, woken := f.pace()
		began := time.Now()
		f.look(ctx, s, token)
		wait := time.NewTimer(max(every-time.Since(began), 0))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-woken:
		case <-wait.C:
		}
		wait.Stop()
	}
}

// look asks a server everything once, and says so when what it answers changes.
func (f *Fleet) look(ctx context.Context, s *server, token string) {
	before, after := s.look(ctx, f.config.Probe, token)
	if ctx.Err() != nil || before == after {
		return
	}
	if after == "" {
		f.log.Info("server answers", "server", s.config.Name)
	} else {
		f.log.Warn("server does not answer as it should", "server", s.config.Name, "error", after)
	}
}

// Refresh looks at every server now, and returns when all have been looked at.
func (f *Fleet) Refresh(ctx context.Context) {
	_, token, _ := f.pace()
	var all sync.WaitGroup
	for _, s := range f.servers {
		all.Go(func() { f.look(ctx, s, token) })
	}
	all.Wait()
}

// Facts are what is known of the fleet now, without asking anybody. The caller
// adds what is not the fleet's to know: other drills, targets, seen tables.
func (f *Fleet) Facts(now time.Time) run.Facts {
	facts := run.Facts{Now: now, Enabled: f.config.Drills.Enabled, Window: f.config.Window, Balancer: f.config.Balancer,
		Infrastructure: f.config.Infrastructure, Names: map[string]string{}}
	for _, s := range f.servers {
		facts.Servers = append(facts.Servers, s.facts(now))
	}
	for a, name := range f.names {
		facts.Names[a.String()] = name
	}
	return facts
}

// AddSeen reads every server's seen table into the facts, in our time, with the
// names that servers know. It returns why, for those whose table could not be read.
func (f *Fleet) AddSeen(ctx context.Context, facts *run.Facts) map[string]error {
	errs := make([]error, len(f.servers))
	var all sync.WaitGroup
	for i, s := range f.servers {
		t := &facts.Servers[i]
		if !t.Heard || !t.Has(protocol.FeatureClients) {
			errs[i] = fmt.Errorf("%s", orElse(t.Error, "it has no seen table"))
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, seenTimeout)
			defer cancel()
			t.Seen, errs[i] = s.client.Seen(ctx)
		})
	}
	all.Wait()
	failed := map[string]error{}
	for i := range f.servers {
		t := &facts.Servers[i]
		if errs[i] != nil {
			failed[t.Name] = errs[i]
		}
		offset := time.Duration(t.OffsetMs) * time.Millisecond
		for j := range t.Seen {
			c := &t.Seen[j]
			c.First, c.Last = c.First.Add(-offset), c.Last.Add(-offset)
			if _, known := facts.Names[c.Address]; !known && c.Name != "" {
				facts.Names[c.Address] = c.Name
			}
		}
	}
	facts.WithSeen = true
	return failed
}

// SeenNames are the names that servers know, as Resolve wants them.
func SeenNames(facts *run.Facts) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	for i := range facts.Servers {
		for _, c := range facts.Servers[i].Seen {
			a, err := netip.ParseAddr(c.Address)
			if err != nil || c.Name == "" {
				continue
			}
			name := strings.ToLower(c.Name)
			if !slices.Contains(out[name], a) {
				out[name] = append(out[name], a)
			}
		}
	}
	return out
}

// Stats of a server.
func (f *Fleet) Stats(ctx context.Context, name string) (protocol.Stats, error) {
	s, err := f.server(name)
	if err != nil {
		return protocol.Stats{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	return s.client.Stats(ctx)
}

// Recording of a server for a drill, with samples or without.
func (f *Fleet) Recording(ctx context.Context, name, drill string, samples bool) (protocol.Recording, error) {
	s, err := f.server(name)
	if err != nil {
		return protocol.Recording{}, err
	}
	timeout := statsTimeout
	if samples {
		timeout = partTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.client.Recording(ctx, drill, samples)
}

// Do carries out one action of a run, once.
func (f *Fleet) Do(ctx context.Context, a run.Action) run.Result {
	out := run.Result{Kind: a.Kind, Server: a.Server, BootID: a.BootID}
	s, err := f.server(a.Server)
	if err == nil {
		timeout := actionTimeout
		if a.Kind == run.ActRecord {
			timeout = recordTimeout
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		out.Drill, err = s.do(ctx, a)
	}
	out.At = steady.Now()
	if err != nil {
		out.Error = err.Error()
		if p, ok := err.(*protocol.Problem); ok {
			out.Reason = p.Reason()
		}
	}
	return out
}

func (f *Fleet) server(name string) (*server, error) {
	for _, s := range f.servers {
		if s.config.Name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("the fleet has no server %q", name)
}

// Version of this controller.
func Version() string { return version.String() }

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/steady"
)

// Deadlines of calls.
const (
	stateTimeout  = 2 * time.Second
	readyTimeout  = 2 * time.Second
	statsTimeout  = 3 * time.Second
	seenTimeout   = 5 * time.Second
	partTimeout   = 30 * time.Second
	recordTimeout = time.Second
	actionTimeout = 5 * time.Second
	// heardFor is how long a server counts as heard after calls began to fail:
	// one that is lost is not a server that is lost.
	heardFor = 3 * time.Second
)

// server is one server of a fleet, and what is known of it.
type server struct {
	config ServerConfig
	client *Client
	ready  *http.Client

	mu      sync.Mutex
	clock   Clock
	state   protocol.State
	heard   bool
	heardAt time.Time // last
	since   time.Time // heard or not
	err     string    // of the newest call; "" when it was answered
	isReady *bool
	probed  time.Time // last answered
	probe   string    // error of the newest probe
}

func newServer(c ServerConfig, client *Client, before *server) *server {
	s := &server{
		config: c, client: client, since: steady.Now(), err: "not asked yet",
		ready: &http.Client{Timeout: readyTimeout, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	if before != nil {
		before.mu.Lock()
		defer before.mu.Unlock()
		s.clock.samples = append(s.clock.samples, before.clock.samples...)
		s.state, s.heard, s.heardAt, s.since, s.err = before.state, before.heard, before.heardAt, before.since, before.err
		s.isReady, s.probed, s.probe = before.isReady, before.probed, before.probe
	}
	return s
}

// look asks for the state and the readiness and sends a DNS question, all at
// once. It returns what was wrong before and after, "" for nothing.
func (s *server) look(ctx context.Context, q Question, token string) (before, after string) {
	var all sync.WaitGroup
	all.Go(func() { s.lookState(ctx) })
	all.Go(func() { s.lookReady(ctx) })
	var probed error
	s.mu.Lock()
	before = s.err
	mark := s.state.ProbeMark // of the last look: a restart costs one probe that counts
	s.mu.Unlock()
	all.Go(func() { probed = probe(ctx, s.config.DNS[0], q, token, mark) })
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() == nil {
		s.probe = ""
		if probed != nil {
			s.probe = probed.Error()
		} else {
			s.probed = steady.Now()
		}
	}
	return before, s.err
}

func (s *server) lookState(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	state, asked, answered, err := s.client.State(bounded)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && state.BootID == "" {
		err = fmt.Errorf("it answers %s, but not as a server of ours does", protocol.PathState)
	}
	if err != nil {
		s.err = err.Error()
		if s.heard && answered.Sub(s.heardAt) > heardFor {
			s.heard, s.since = false, answered
		}
		return
	}
	s.err = ""
	if skew := Skew(Version(), state.Version); skew != nil {
		// It is there, and nothing may be asked of it: what it does not list is
		// not sent to it.
		s.err, state.Features = skew.Error(), nil
	}
	if state.BootID != s.state.BootID {
		s.clock = Clock{} // another process may be on another machine
	}
	s.clock.Add(asked, answered, state.Now)
	s.state, s.heardAt = state, answered
	if !s.heard {
		s.heard, s.since = true, answered
	}
}

func (s *server) lookReady(ctx context.Context) {
	if s.config.Ready == "" {
		return
	}
	ready := false
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Ready, nil)
	if err == nil {
		var resp *http.Response
		if resp, err = s.ready.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxSmall)) // only the status counts
			resp.Body.Close()
			ready = resp.StatusCode == http.StatusOK
		}
	}
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isReady = &ready
}

// facts are what is known, in our time but for the state, which is as the
// server said it.
func (s *server) facts(now time.Time) run.ServerFacts {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := run.ServerFacts{
		Name: s.config.Name, DNS: s.config.DNS, Heard: s.heard, Error: s.err, Since: s.since, State: s.state,
		LastProbe: s.probed, ProbeError: s.probe,
	}
	if s.isReady != nil {
		ready := *s.isReady
		t.Ready = &ready
	}
	if offset, doubt, ok := s.clock.Offset(now); ok {
		t.OffsetMs = offset.Round(time.Millisecond).Milliseconds()
		t.OffsetErr = doubt.Milliseconds() + 1 // rounding is doubt too
	}
	if ms := s.state.LastAnswerMs; ms != 0 {
		t.LastAnswer = time.UnixMilli(ms - t.OffsetMs)
	}
	return t
}

// do carries out an action.
func (s *server) do(ctx context.Context, a run.Action) (*protocol.DrillState, error) {
	if a.Upstream != "" {
		o, err := s.doUpstream(ctx, a)
		return run.AsDrill(o), err
	}
	switch a.Kind {
	case run.ActRecord:
		return nil, s.client.Record(ctx, a.BootID, a.Drill, *a.Recording)
	case run.ActUnrecord:
		return nil, s.client.Unrecord(ctx, a.BootID, a.Drill)
	case run.ActOrder:
		return s.client.Order(ctx, a.BootID, *a.Order)
	case run.ActRenew:
		return s.client.Renew(ctx, a.BootID, a.Drill)
	case run.ActEnd:
		return s.client.End(ctx, a.BootID, a.Drill)
	}
	return nil, fmt.Errorf("there is no action %q", a.Kind)
}

// doUpstream carries out an action on one of the server's upstreams.
func (s *server) doUpstream(ctx context.Context, a run.Action) (*protocol.OutageState, error) {
	switch a.Kind {
	case run.ActOrder, run.ActRenew:
		return s.client.Outage(ctx, a.BootID, a.Upstream, *a.Outage)
	case run.ActEnd:
		return s.client.EndOutage(ctx, a.BootID, a.Upstream, a.Drill)
	}
	return nil, fmt.Errorf("there is no action %q on an upstream", a.Kind)
}

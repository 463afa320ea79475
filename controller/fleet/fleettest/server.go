package fleettest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// Server is a stand-in for a DNS server. Change what it is with Edit.
type Server struct {
	Name string

	mu      sync.Mutex
	s       Shape
	ended   map[string]bool
	calls   []string // that change something
	control *httptest.Server
	dns     *dns.Server
	addr    string
}

// Shape is what a Server looks like from outside.
type Shape struct {
	State     protocol.State
	Skew      time.Duration // of its clock
	Seen      []protocol.SeenClient
	Stats     protocol.Stats
	Recording *protocol.Recording
	Rcode     int  // of its DNS answers
	Silent    bool // it answers no DNS
	Marked    int  // questions so far that carried its mark
	Unmarked  int  // and those that did not
	Down      bool // its control endpoint answers 500 in plain text
	PageSize  int  // of the seen table; 0: as asked
	// SlowRecord is how long an order to record is on its way.
	SlowRecord time.Duration
	// Taken is another drill that it records, which its state does not show yet.
	Taken string
}

// New starts one on a loopback address, 127.0.0.1 say, with a control endpoint
// of the CA's. It ends with the test.
func New(t testing.TB, name, ip string, ca *CA) *Server {
	t.Helper()
	s := &Server{Name: name, ended: map[string]bool{}}
	s.s.State = protocol.State{
		BootID: "boot-" + name, Version: "0.0.0-dev", StartedAt: time.Now().Add(-time.Hour),
		Features: []string{protocol.FeatureClients, protocol.FeatureDrill, protocol.FeatureRecordings},
		Ready:    &protocol.ReadyState{Configured: true, Continuous: true}, ProbeMark: "000102030405060708090a0b0c0d0e0f",
	}
	source, err := mtls.Open(ca.Server(name), mtls.KindServer, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.control = httptest.NewUnstartedServer(s.routes())
	s.control.TLS = mtls.ServerConfig(source.Keys)
	s.control.StartTLS()
	t.Cleanup(s.control.Close)

	conn, err := net.ListenPacket("udp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s.addr = conn.LocalAddr().String()
	s.dns = &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(s.answer)}
	go func() { _ = s.dns.ActivateAndServe() }() // ends with Shutdown
	t.Cleanup(func() { _ = s.dns.Shutdown() })
	return s
}

// DNS is its address.
func (s *Server) DNS() string { return s.addr }

// Control is its control endpoint.
func (s *Server) Control() string { return s.control.URL }

// Edit changes what it looks like.
func (s *Server) Edit(f func(*Shape)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.s)
}

// Shape is what it looks like now.
func (s *Server) Shape() Shape {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.s
}

// Calls are those so far that asked for a change, as "PUT /v1/drill".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *Server) now() time.Time { return time.Now().Add(s.s.Skew) }

// drilling reports whether a drill is on now; it ends one whose time is over.
func (s *Server) drilling() bool {
	d := s.s.State.Drill
	if d == nil || d.Ended != nil {
		return false
	}
	if now := s.now(); now.After(d.EndsAt) || now.After(d.LeaseEnds) {
		s.end(protocol.EndExpired)
		return false
	}
	return true
}

func (s *Server) end(why protocol.DrillEnd) {
	d := *s.s.State.Drill
	at := s.now()
	d.Ended, d.End = &at, why
	s.s.State.Drill = &d
	s.ended[d.ID] = true
}

func (s *Server) answer(w dns.ResponseWriter, q *dns.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	probe, marked := false, false
	if o := q.IsEdns0(); o != nil {
		for _, x := range o.Option {
			if local, ok := x.(*dns.EDNS0_LOCAL); ok && local.Code == protocol.ProbeOption {
				token := hex.EncodeToString(local.Data)
				marked = marked || token == s.s.State.ProbeMark
				probe = probe || token != s.s.State.ProbeMark
			}
		}
	}
	if marked {
		s.s.Marked++
	} else {
		s.s.Unmarked++
	}
	client, _, _ := net.SplitHostPort(w.RemoteAddr().String())
	if s.s.Silent || s.drilling() && !probe && client != "127.0.0.1" {
		return
	}
	m := new(dns.Msg)
	m.SetRcode(q, s.s.Rcode)
	if !marked {
		s.s.State.LastAnswerMs = s.now().UnixMilli()
	}
	_ = w.WriteMsg(m) // whoever asked may be gone
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(w http.ResponseWriter, r *http.Request) (any, *protocol.Problem)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, protocol.PathRecordings) {
				time.Sleep(s.Shape().SlowRecord)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.s.Down {
				http.Error(w, "down", http.StatusInternalServerError)
				return
			}
			if r.Method != http.MethodGet {
				s.calls = append(s.calls, r.Method+" "+r.URL.Path)
				if boot := r.Header.Get(protocol.BootHeader); boot != s.s.State.BootID {
					protocol.NewProblem(http.StatusMisdirectedRequest, protocol.ReasonOtherBoot, "meant for %s, this is %s", boot, s.s.State.BootID).Write(w)
					return
				}
			}
			answer, problem := f(w, r)
			if problem != nil {
				problem.Write(w)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer) // whoever asked may be gone
		})
	}
	handle("GET "+protocol.PathState, func(http.ResponseWriter, *http.Request) (any, *protocol.Problem) {
		s.drilling()
		s.losing()
		s.freeze()
		state := s.s.State
		state.Now = s.now()
		return state, nil
	})
	handle("GET "+protocol.PathStats, func(http.ResponseWriter, *http.Request) (any, *protocol.Problem) {
		st := s.s.Stats
		st.BootID, st.NowMs = s.s.State.BootID, s.now().UnixMilli()
		st.LatencyMs = make([]uint64, len(protocol.LatencyBoundsMs)+1)
		return st, nil
	})
	handle("GET "+protocol.PathClients, s.page)
	handle("PUT "+protocol.PathDrill, s.order)
	handle("POST "+protocol.PathDrills+"{id}/renew", s.renew)
	handle("DELETE "+protocol.PathDrills+"{id}", s.remove)
	handle("PUT "+protocol.PathUpstreams+"{address}/outage", s.lose)
	handle("DELETE "+protocol.PathUpstreams+"{address}/outage", s.regain)
	handle("PUT "+protocol.PathRecordings+"{id}", s.record)
	handle("GET "+protocol.PathRecordings+"{id}", func(_ http.ResponseWriter, r *http.Request) (any, *protocol.Problem) {
		s.freeze()
		if rec := s.s.Recording; rec != nil && rec.Drill == r.PathValue("id") {
			out := *rec
			out.NowMs = s.now().UnixMilli()
			return out, nil
		}
		return nil, notFound("nothing is recorded for %s", r.PathValue("id"))
	})
	handle("DELETE "+protocol.PathRecordings+"{id}", func(_ http.ResponseWriter, r *http.Request) (any, *protocol.Problem) {
		if rec := s.s.Recording; rec != nil && rec.Drill == r.PathValue("id") {
			s.s.Recording, s.s.State.Recording = nil, nil
		}
		return struct{}{}, nil
	})
	return mux
}

func notFound(format string, args ...any) *protocol.Problem {
	return protocol.NewProblem(http.StatusNotFound, protocol.ReasonNotFound, format, args...)
}

func conflict(reason protocol.Reason, format string, args ...any) *protocol.Problem {
	return protocol.NewProblem(http.StatusConflict, reason, format, args...)
}

func decode(r *http.Request, v any) *protocol.Problem {
	if err := protocol.Decode(r.Body, v); err != nil {
		return protocol.NewProblem(http.StatusBadRequest, protocol.ReasonBadRequest, "%v", err)
	}
	return nil
}

func (s *Server) page(_ http.ResponseWriter, r *http.Request) (any, *protocol.Problem) {
	limit := protocol.MaxSeenPage
	if _, err := fmt.Sscan(r.URL.Query().Get("limit"), &limit); err != nil || limit < 1 || limit > protocol.MaxSeenPage {
		return nil, protocol.NewProblem(http.StatusBadRequest, protocol.ReasonBadRequest, "limit")
	}
	if s.s.PageSize > 0 {
		limit = s.s.PageSize
	}
	out := protocol.SeenPage{BootID: s.s.State.BootID, NowMs: s.now().UnixMilli(), Total: len(s.s.Seen), Clients: []protocol.SeenClient{}}
	for _, c := range s.s.Seen {
		if strings.Compare(c.Address, r.URL.Query().Get("after")) <= 0 {
			continue
		}
		if len(out.Clients) == limit {
			out.Next = out.Clients[limit-1].Address
			break
		}
		out.Clients = append(out.Clients, c)
	}
	return out, nil
}

func (s *Server) order(_ http.ResponseWriter, r *http.Request) (any, *protocol.Problem) {
	var o protocol.Order
	if p := decode(r, &o); p != nil {
		return nil, p
	}
	on := s.drilling()
	switch rec := s.s.State.Recording; {
	case s.ended[o.ID]:
		return nil, conflict(protocol.ReasonDrillEnded, "%s has ended", o.ID)
	case on && s.s.State.Drill.ID == o.ID:
		return s.s.State.Drill, nil
	case on:
		return nil, conflict(protocol.ReasonDrillRunning, "%s is on", s.s.State.Drill.ID)
	case rec == nil || rec.Drill != o.ID:
		return nil, conflict(protocol.ReasonNotRecording, "record first")
	}
	now := s.now()
	s.s.State.Drill = &protocol.DrillState{
		ID: o.ID, Fleet: o.Fleet, Mode: o.Mode, Readiness: o.Readiness, Started: now,
		EndsAt:    now.Add(time.Duration(o.DurationSeconds) * time.Second),
		LeaseEnds: now.Add(protocol.LeaseSeconds * time.Second),
	}
	return s.s.State.Drill, nil
}

func (s *Server) renew(_ http.ResponseWriter, r *http.Request) (any, *protocol.Problem) {
	if !s.drilling() || s.s.State.Drill.ID != r.PathValue("id") {
		return nil, conflict(protocol.ReasonDrillEnded, "%s is not on", r.PathValue("id"))
	}
	s.s.State.Drill.LeaseEnds = s.now().Add(protocol.LeaseSeconds * time.Second)
	return s.s.State.Drill, nil
}

func (s *Server) remove(_ http.ResponseWriter, r *http.Request) (any, *protocol.Problem) {
	id := r.PathValue("id")
	s.ended[id] = true
	if d := s.s.State.Drill; d == nil || d.ID != id {
		return nil, notFound("no drill %s here", id)
	}
	if s.drilling() {
		s.end(protocol.EndDeleted)
	}
	return s.s.State.Drill, nil
}

func (s *Server) record(_ http.ResponseWriter, r *http.Request) (any, *protocol.Problem) {
	var o protocol.RecordingOrder
	if p := decode(r, &o); p != nil {
		return nil, p
	}
	s.freeze()
	id := r.PathValue("id")
	if s.s.Taken != "" {
		return nil, conflict(protocol.ReasonOtherRecording, "%s is being recorded", s.s.Taken)
	}
	if rec := s.s.State.Recording; rec != nil && !rec.Frozen {
		if rec.Drill != id {
			return nil, conflict(protocol.ReasonOtherRecording, "%s is being recorded", rec.Drill)
		}
		return rec, nil
	}
	now := s.now()
	s.s.State.Recording = &protocol.RecordingState{Drill: id, Fleet: o.Fleet, Started: now, EndsAt: now.Add(time.Duration(o.Seconds) * time.Second)}
	s.s.Recording = &protocol.Recording{RecordingState: *s.s.State.Recording, BootID: s.s.State.BootID}
	return s.s.State.Recording, nil
}

// freeze ends a recording whose time is over.
func (s *Server) freeze() {
	if rec := s.s.State.Recording; rec != nil && s.now().After(rec.EndsAt) {
		rec.Frozen = true
		s.s.Recording.Frozen = true
	}
}

package control

import (
	"net/http"
	"slices"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/steady"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/version"
)

// service is what answers at the endpoint for one Corefile.
type service struct {
	*plan
	source   *mtls.Source // nil on a unix socket
	ready    *readiness
	features []string // sorted
	mux      *http.ServeMux
}

func newService(p *plan, source *mtls.Source) *service {
	s := &service{plan: p, source: source, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET "+protocol.PathState, func(w http.ResponseWriter, _ *http.Request) {
		WriteJSON(w, http.StatusOK, s.state())
	})
	s.mux.HandleFunc("GET "+protocol.PathEvents, serveEvents)
	s.mux.HandleFunc("GET "+protocol.PathLive, serveLive)
	s.mux.HandleFunc("GET "+protocol.PathReady, func(w http.ResponseWriter, _ *http.Request) { s.ready.serve(w) })
	for _, provider := range p.providers {
		s.features = append(s.features, provider.Feature)
		if provider.Routes != nil {
			provider.Routes(s.mux)
		}
	}
	slices.Sort(s.features)
	return s
}

// state asks every provider.
func (s *service) state() *protocol.State {
	st := &protocol.State{
		BootID:    BootID(),
		Version:   version.String(),
		Features:  append([]string{}, s.features...),
		StartedAt: started.UTC(),
		Ready:     s.ready.state,
	}
	for _, p := range s.providers {
		if p.State != nil {
			p.State(st)
		}
	}
	st.Now = steady.Now().UTC() // last: callers measure the offset of this clock
	return st
}

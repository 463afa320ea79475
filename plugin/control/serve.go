package control

import (
	"encoding/json"
	"net/http"
	"path"
	"runtime/debug"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

const (
	// longBody is where a body starts to count as long. Renewing or ending a
	// drill takes none at all, so nobody's long bodies can hold those up.
	longBody = 64 << 10
	// maxLongBodies are read at once, in all and for each caller: each can take
	// 30 MB of memory until it is decoded, in a pod that may have 170.
	maxLongBodies          = 2
	maxLongBodiesPerCaller = 1
)

// ServeHTTP answers a call: who is it, may it, which process does it mean, and
// only then what does it want.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	svc := s.current.Load()
	a := &answer{ResponseWriter: w}
	peer := peerOf(r.Context())
	r = withCaller(r, peer.name)
	route := otherRoute
	defer func() {
		if v := recover(); v != nil {
			a.panicked(v)
		}
		requests.WithLabelValues(route, statusLabel(a.status())).Inc()
		reason := a.reason()
		if !safe(r.Method) || reason == protocol.ReasonForbidden {
			auditCall(r, peer.name, a.status(), reason)
		}
	}()

	if err := peer.check(svc); err != nil {
		refusals.WithLabelValues(refusedCaller).Inc()
		a.Header().Set("Connection", "close")
		protocol.NewProblem(http.StatusForbidden, protocol.ReasonForbidden, "%v", err).Write(a)
		return
	}
	handler, pattern := svc.route(r)
	if pattern == "" {
		handler.ServeHTTP(a, r)
		return
	}
	route = pattern
	if p := s.preconditions(r); p != nil {
		p.Write(a)
		return
	}
	if r.ContentLength < 0 || r.ContentLength > longBody {
		if !s.bodies.take(peer.name) {
			busy(a, "another long body is being read")
			return
		}
		defer s.bodies.give(peer.name)
	}
	handler.ServeHTTP(a, withServer(r, s))
}

// route finds who answers; pattern is empty where nobody does.
func (s *service) route(r *http.Request) (handler http.Handler, pattern string) {
	// An unclean path is not asked of the mux: it would redirect, in its own words.
	if path.Clean(r.URL.Path) != r.URL.Path {
		return http.HandlerFunc(notFound), ""
	}
	found, pattern := s.mux.Handler(r)
	if pattern != "" {
		return s.mux, pattern // the mux itself: it sets the path's values
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux knows whether it is the path or the method, and says so in text.
		probe := &answer{ResponseWriter: discard{header: http.Header{}}}
		found.ServeHTTP(probe, r)
		if probe.status() != http.StatusMethodNotAllowed {
			notFound(w, r)
			return
		}
		allowed := probe.Header().Get("Allow")
		w.Header().Set("Allow", allowed)
		protocol.NewProblem(http.StatusMethodNotAllowed, protocol.ReasonNotAllowed, "%s takes %s", r.URL.Path, allowed).Write(w)
	}), ""
}

func notFound(w http.ResponseWriter, r *http.Request) {
	protocol.NewProblem(http.StatusNotFound, protocol.ReasonNotFound,
		"there is no %s here: the server's features say what there is, and a plugin that is not in its Corefile has no routes", r.URL.Path).Write(w)
}

// preconditions is what is wrong with a call before anybody looks at its body.
func (s *server) preconditions(r *http.Request) *protocol.Problem {
	if safe(r.Method) {
		return nil
	}
	switch boot := r.Header.Get(protocol.BootHeader); boot {
	case BootID():
		return nil
	case "":
		return protocol.NewProblem(http.StatusBadRequest, protocol.ReasonBadRequest,
			"name the process that this is meant for: read bootId from %s and send it in this header", protocol.PathState).In(protocol.BootHeader)
	default:
		refusals.WithLabelValues(refusedBoot).Inc()
		return protocol.NewProblem(http.StatusMisdirectedRequest, protocol.ReasonOtherBoot,
			"this process is %s: the one that was meant is gone, read the state again", BootID())
	}
}

// busy says that there are as many as there may be.
func busy(w http.ResponseWriter, what string) {
	refusals.WithLabelValues(refusedBusy).Inc()
	w.Header().Set("Retry-After", "1")
	protocol.NewProblem(http.StatusServiceUnavailable, protocol.ReasonBusy, "%s: try again in a second", what).Write(w)
}

// safe says that a method changes nothing (RFC 9110, 9.2.1).
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// answer remembers what was answered, for the audit line and the metrics.
type answer struct {
	http.ResponseWriter
	code    int
	problem []byte
}

// WriteHeader remembers the status.
func (a *answer) WriteHeader(status int) {
	if a.code == 0 {
		a.code = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write remembers a problem's text.
func (a *answer) Write(b []byte) (int, error) {
	if a.code == 0 {
		a.code = http.StatusOK
	}
	if a.code >= http.StatusBadRequest && a.problem == nil && a.Header().Get("Content-Type") == protocol.ProblemMedia {
		a.problem = b
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) status() int {
	if a.code == 0 {
		return http.StatusOK
	}
	return a.code
}

// reason is the constant in the problem that was answered, if one was.
func (a *answer) reason() protocol.Reason {
	if a.problem == nil {
		return ""
	}
	var p protocol.Problem
	if json.Unmarshal(a.problem, &p) != nil {
		return ""
	}
	return p.Reason()
}

// panicked answers for a handler that did not. The server goes on: it answers
// DNS as well.
func (a *answer) panicked(v any) {
	if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
		return
	}
	log.Errorf("A call to the control endpoint failed: %v\n%s", v, debug.Stack())
	if a.code == 0 {
		protocol.NewProblem(http.StatusInternalServerError, protocol.ReasonInternal, "the call failed in the server: see its log").Write(a)
	}
}

// discard takes an answer that nobody is to see.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

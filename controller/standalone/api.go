package standalone

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"firebreakdns.io/firebreak/controller/fleet"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// role is what a caller may do.
type role string

const (
	viewer    role = "viewer"    // read
	assistant role = "assistant" // read and plan
	operator  role = "operator"  // read, plan, start and stop
)

// who is a caller.
type who struct {
	name string
	role role
}

// endpoint answers a call, or returns what is wrong with it.
type endpoint func(w http.ResponseWriter, r *http.Request, by who) error

// api is the HTTP API of package view.
func (c *Controller) api() http.Handler {
	mux := http.NewServeMux()
	c.route(mux, view.PathServers, map[string]endpoint{http.MethodGet: c.getServers})
	c.route(mux, view.PathDrill, map[string]endpoint{http.MethodGet: c.getDrill, http.MethodPost: c.postDrill, http.MethodDelete: c.deleteDrill})
	c.route(mux, view.PathDrills, map[string]endpoint{http.MethodGet: c.getDrills})
	c.route(mux, view.PathReport, map[string]endpoint{http.MethodGet: c.getReport})
	c.route(mux, view.PathHTML, map[string]endpoint{http.MethodGet: c.getHTML})
	c.route(mux, view.PathClients, map[string]endpoint{http.MethodGet: c.getClients})
	c.route(mux, view.PathAffinity, map[string]endpoint{http.MethodGet: c.getAffinity})
	metrics := c.metrics.handler(c)
	c.route(mux, "/metrics", map[string]endpoint{http.MethodGet: func(w http.ResponseWriter, r *http.Request, _ who) error {
		metrics.ServeHTTP(w, r)
		return nil
	}})
	c.route(mux, "/", nil)
	return mux
}

// route answers a path. Who may not call gets no further; what is wrong is a
// problem document, for paths and methods that are not there too.
func (c *Controller) route(mux *http.ServeMux, path string, methods map[string]endpoint) {
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		by, err := c.authorize(r)
		refused := func() {
			c.audit.Warn("refused", "by", by.name, "role", by.role, "from", r.RemoteAddr, "call", r.Method+" "+r.URL.Path, "why", err.Error())
			answerError(w, err)
		}
		if err != nil {
			refused()
			return
		}
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		call, known := methods[method]
		switch {
		case len(methods) == 0:
			err = protocol.NewProblem(http.StatusNotFound, protocol.ReasonNotFound, "there is no %s here: the API's paths begin with /api/v1", r.URL.Path)
		case !known:
			var allowed []string
			for m := range methods {
				allowed = append(allowed, m)
			}
			slices.Sort(allowed)
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			err = protocol.NewProblem(http.StatusMethodNotAllowed, protocol.ReasonNotAllowed, "%s takes %s", r.URL.Path, strings.Join(allowed, ", "))
		default:
			if err = call(w, r, by); err != nil && method != http.MethodGet {
				refused()
				return
			}
		}
		if err != nil {
			answerError(w, err)
		}
	})
}

// authorize tells who calls, and in which role; only listed names have one.
func (c *Controller) authorize(r *http.Request) (who, error) {
	name, local, err := caller(r)
	switch {
	case err != nil:
		return who{}, forbidden("%v", err)
	case local:
		return who{name, operator}, nil // the socket's mode says who may
	}
	roles := c.newest().API.Roles
	for _, x := range []struct {
		names []string
		role  role
	}{{roles.Operator, operator}, {roles.Assistant, assistant}, {roles.Viewer, viewer}} {
		if slices.Contains(x.names, name) {
			return who{name, x.role}, nil
		}
	}
	return who{name: name}, forbidden("%q has no role: list it in the fleet file under api.roles", name)
}

func forbidden(format string, args ...any) error {
	return protocol.NewProblem(http.StatusForbidden, protocol.ReasonForbidden, format, args...)
}

func badField(field, format string, args ...any) *protocol.Problem {
	return protocol.NewProblem(http.StatusBadRequest, protocol.ReasonBadRequest, format, args...).In(field)
}

// answerError answers with the problem that err is.
func answerError(w http.ResponseWriter, err error) {
	switch e := err.(type) {
	case *protocol.Problem:
		e.Write(w)
	case unresolved:
		badField(e[0].Field, "%s", e[0].Message).Write(w)
	case *refusal:
		e.problem().write(w)
	default:
		status, reason := http.StatusInternalServerError, protocol.ReasonInternal
		if err == errClosing {
			status, reason = http.StatusServiceUnavailable, protocol.ReasonBusy
		}
		protocol.NewProblem(status, reason, "%v", err).Write(w)
	}
}

// refused is a refusal's problem document.
type refused view.RefusedProblem

func (r *refusal) problem() *refused {
	p := &refused{
		Problem: *protocol.NewProblem(http.StatusConflict, view.ReasonDrillRefused, "%s", r.Error()),
		Reason:  r.first.Reason,
	}
	p.Field = r.field
	for _, check := range r.checks {
		if !check.Passed {
			p.Checks = append(p.Checks, check)
		}
	}
	return p
}

func (p *refused) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", protocol.ProblemMedia)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller went away: nobody to tell
}

func answer(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller went away: nobody to tell
	return nil
}

// parameters are the query's: each once, and none that is not known, since one
// that was ignored would answer another question than was asked.
func parameters(r *http.Request, known ...string) (map[string]string, error) {
	out := map[string]string{}
	for name, values := range r.URL.Query() {
		if !slices.Contains(known, name) {
			if len(known) == 0 {
				return nil, badField(name, "this path takes no parameters")
			}
			return nil, badField(name, "there is no such parameter: %s", fleet.DidYouMean(name, known))
		}
		if len(values) != 1 {
			return nil, badField(name, "it is given %d times: give it once", len(values))
		}
		out[name] = values[0]
	}
	return out, nil
}

package clients

import (
	"net/http"
	"net/netip"
	"strconv"

	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

func seenRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+protocol.PathClients, withProcess(getSeen))
}

func recordingRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+protocol.PathStats, withProcess(getStats))
	mux.HandleFunc("PUT "+protocol.PathRecordings+"{drill}", withProcess(putRecording))
	mux.HandleFunc("GET "+protocol.PathRecordings+"{drill}", withProcess(getRecording))
	mux.HandleFunc("DELETE "+protocol.PathRecordings+"{drill}", withProcess(deleteRecording))
}

// withProcess is for the moments before a Corefile with the plugin runs, and
// after.
func withProcess(h func(*Process, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := Current()
		if p == nil {
			protocol.NewProblem(http.StatusNotFound, protocol.ReasonNotFound, "the clients plugin does not run: ask again after the start").Write(w)
			return
		}
		h(p, w, r)
	}
}

func getSeen(p *Process, w http.ResponseWriter, r *http.Request) {
	q, problem := parameters(r, "after", "limit")
	if problem != nil {
		problem.Write(w)
		return
	}
	limit := protocol.MaxSeenPage
	if s := q["limit"]; s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > protocol.MaxSeenPage {
			badField("limit", "%q: use a number from 1 to %d", s, protocol.MaxSeenPage).Write(w)
			return
		}
		limit = n
	}
	var after netip.Addr
	if s := q["after"]; s != "" {
		a, err := netip.ParseAddr(s)
		if err != nil || a != Normal(a) {
			badField("after", "%q is no address: send the next of the page before", s).Write(w)
			return
		}
		after = a
	}
	now := Now()
	clients, total, more := p.Seen(after, limit, now)
	page := protocol.SeenPage{
		BootID:  control.BootID(),
		NowMs:   now.Ms,
		Total:   total,
		Max:     p.Max(),
		Dropped: p.Dropped(),
		Clients: clients,
	}
	for i := range clients {
		if a, err := netip.ParseAddr(clients[i].Address); err == nil {
			clients[i].Name = p.Name(a)
		}
	}
	if more {
		page.Next = clients[len(clients)-1].Address
	}
	control.WriteJSON(w, http.StatusOK, page)
}

func getStats(p *Process, w http.ResponseWriter, r *http.Request) {
	if _, problem := parameters(r); problem != nil {
		problem.Write(w)
		return
	}
	s := p.Stats(Now())
	s.BootID = control.BootID()
	control.WriteJSON(w, http.StatusOK, s)
}

func putRecording(p *Process, w http.ResponseWriter, r *http.Request) {
	var order protocol.RecordingOrder
	if !control.ReadJSON(w, r, &order) {
		return
	}
	drill := r.PathValue("drill")
	now := Now()
	before := p.recording.Load()
	s, problem := p.Record(drill, order, now)
	if problem != nil {
		problem.Write(w)
		return
	}
	if p.recording.Load() != before {
		log.Infof("Recording for drill %s of fleet %s until %s", drill, order.Fleet, s.EndsAt.Format("15:04:05Z07:00"))
		control.Changed()
	}
	control.WriteJSON(w, http.StatusOK, s)
}

func getRecording(p *Process, w http.ResponseWriter, r *http.Request) {
	q, problem := parameters(r, "samples", "after")
	if problem != nil {
		problem.Write(w)
		return
	}
	if s := q["samples"]; s != "" && s != "none" {
		badField("samples", "%q: leave it out, or say none", s).Write(w)
		return
	}
	after := int64(0)
	if s := q["after"]; s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			badField("after", "%q is no time: use Unix milliseconds of this server's clock", s).Write(w)
			return
		}
		after = n
	}
	rec, ok := p.ReadRecording(r.PathValue("drill"), q["samples"] != "none", after, Now())
	if !ok {
		protocol.NewProblem(http.StatusNotFound, protocol.ReasonNotFound,
			"nothing is recorded for drill %q: it never was, or it was replaced, or forgotten %s after its end", r.PathValue("drill"), recordingKept).Write(w)
		return
	}
	rec.BootID = control.BootID()
	control.WriteJSON(w, http.StatusOK, rec)
}

func deleteRecording(p *Process, w http.ResponseWriter, r *http.Request) {
	if p.Forget(r.PathValue("drill")) {
		log.Infof("Recording for drill %s was deleted", r.PathValue("drill"))
		control.Changed()
	}
	w.WriteHeader(http.StatusNoContent) // whether or not it was there: it is not now
}

// parameters are the query's, each at most once and none that is not known: one
// that is ignored would answer another question than was asked.
func parameters(r *http.Request, known ...string) (map[string]string, *protocol.Problem) {
	out := make(map[string]string)
	for name, values := range r.URL.Query() {
		ok := false
		for _, k := range known {
			ok = ok || k == name
		}
		if !ok {
			return nil, badField(name, "unknown parameter: this route takes %v", known)
		}
		if len(values) != 1 {
			return nil, badField(name, "given %d times: give it once", len(values))
		}
		out[name] = values[0]
	}
	return out, nil
}

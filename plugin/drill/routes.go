package drill

import (
	"net/http"

	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// routes hangs an engine on the control endpoint.
func (e *Engine) routes(mux *http.ServeMux) {
	mux.HandleFunc("PUT "+protocol.PathDrill, func(w http.ResponseWriter, r *http.Request) {
		var o protocol.Order
		if !control.ReadJSON(w, r, &o) {
			return
		}
		if holders.None() {
			protocol.NewProblem(http.StatusNotFound, protocol.ReasonNotFound, "the drill plugin does not run: ask again after the start").Write(w)
			return
		}
		answer(w, o.ID, e.Start, o)
	})
	mux.HandleFunc("POST "+protocol.PathDrills+"{id}/renew", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r.PathValue("id"), e.Renew, r.PathValue("id"))
	})
	mux.HandleFunc("DELETE "+protocol.PathDrills+"{id}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r.PathValue("id"), e.Delete, r.PathValue("id"))
	})
}

func answer[T any](w http.ResponseWriter, id string, do func(T) (*protocol.DrillState, *protocol.Problem), with T) {
	s, problem := do(with)
	if problem != nil {
		log.Infof("Drill %q: %v", id, problem)
		problem.Write(w)
		return
	}
	control.WriteJSON(w, http.StatusOK, s)
}

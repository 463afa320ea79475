package nodelocal

import (
	"net/http"

	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// routes are what nodelocal hangs on the control endpoint.
func routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+protocol.PathNodeLocal, func(w http.ResponseWriter, _ *http.Request) {
		s := node.status()
		if s == nil {
			protocol.NewProblem(http.StatusNotFound, protocol.ReasonNotFound, "the Corefile has no nodelocal any more").Write(w)
			return
		}
		control.WriteJSON(w, http.StatusOK, s)
	})
}

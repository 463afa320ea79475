package control

import (
	"encoding/json"
	"errors"
	"net/http"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// maxBody is the longest body that ReadJSON takes. The longest honest one is an
// order with three full lists of IPv6 prefixes: 3 x 65536 x 46 bytes are 9 MB.
const maxBody = 12 << 20

// ReadJSON decodes the body into v, strictly: one value, no unknown field, not
// longer than any honest message. If it cannot, it answers with a problem and
// returns false.
func ReadJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	err := protocol.Decode(http.MaxBytesReader(w, r.Body, maxBody), v)
	if err == nil {
		return true
	}
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		protocol.NewProblem(http.StatusRequestEntityTooLarge, protocol.ReasonTooLarge,
			"the body is longer than %d bytes: no message of this protocol is", long.Limit).Write(w)
		return false
	}
	problem := protocol.NewProblem(http.StatusBadRequest, protocol.ReasonBadRequest,
		"the body is not the JSON that this route takes (an unknown field is refused as well: send only what the state's features list): %v", err)
	var field *protocol.FieldError
	if errors.As(err, &field) {
		problem.In(field.Field)
	}
	problem.Write(w)
	return false
}

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		protocol.NewProblem(http.StatusInternalServerError, protocol.ReasonInternal, "cannot encode the answer: %v", err).Write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the caller went away: nobody to tell
}

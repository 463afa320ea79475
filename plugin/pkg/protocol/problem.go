package protocol

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Reason is a constant that says why a call was refused; it ends the type of
// a Problem.
type Reason string

// Reasons of the control endpoint.
const (
	ReasonBadRequest     Reason = "BadRequest"       // 400: not JSON, an unknown field, a value out of bounds
	ReasonForbidden      Reason = "Forbidden"        // 403: the caller is not on the list
	ReasonNotFound       Reason = "NotFound"         // 404
	ReasonNotAllowed     Reason = "MethodNotAllowed" // 405
	ReasonOtherBoot      Reason = "OtherBoot"        // 421: meant for another process
	ReasonDrillRunning   Reason = "DrillRunning"     // 409: another drill is on
	ReasonDrillEnded     Reason = "DrillEnded"       // 409: this drill has ended here and stays ended
	ReasonNotRecording   Reason = "NotRecording"     // 409: an order needs its recording first
	ReasonOtherRecording Reason = "OtherRecording"   // 409: another drill is being recorded
	ReasonLastHealthy    Reason = "LastHealthy"      // 409: nothing else would answer
	ReasonTooLarge       Reason = "TooLarge"         // 413
	ReasonInternal       Reason = "Internal"         // 500
	ReasonNotReady       Reason = "NotReady"         // 503: a plugin is not ready; the detail says which, and why
	ReasonBusy           Reason = "Busy"             // 503: as many of these are on as there may be; try again in a second
)

// ProblemType stands before the reason in Problem.Type.
const ProblemType = "urn:firebreak:problem:"

// ProblemMedia is the media type of a Problem.
const ProblemMedia = "application/problem+json"

// Problem is an error as RFC 9457 has it. Its Type ends in a constant Reason;
// Detail says what is wrong and what to do; Field names the field at fault.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
}

// NewProblem is a problem with the given HTTP status and reason.
func NewProblem(status int, reason Reason, format string, args ...any) *Problem {
	return &Problem{
		Type:   ProblemType + string(reason),
		Title:  http.StatusText(status),
		Status: status,
		Detail: fmt.Sprintf(format, args...),
	}
}

// In names the field at fault.
func (p *Problem) In(field string) *Problem {
	p.Field = field
	return p
}

// Reason is the constant at the end of the type.
func (p *Problem) Reason() Reason {
	return Reason(strings.TrimPrefix(p.Type, ProblemType))
}

// Error says the reason and the detail.
func (p *Problem) Error() string {
	if p.Field != "" {
		return fmt.Sprintf("%s: %s: %s", p.Reason(), p.Field, p.Detail)
	}
	return fmt.Sprintf("%s: %s", p.Reason(), p.Detail)
}

// Write answers w with the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", ProblemMedia)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller went away: nobody to tell
}

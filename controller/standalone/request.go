package standalone

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"firebreakdns.io/firebreak/controller/fleet"
	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// maxBody is the most bytes of a request.
const maxBody = 1 << 20

// readBody reads one JSON value strictly, and names the field at fault. An empty
// body leaves into as it is where that is allowed.
func readBody(w http.ResponseWriter, r *http.Request, into any, mayBeEmpty bool) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return protocol.NewProblem(http.StatusRequestEntityTooLarge, protocol.ReasonTooLarge, "the body has more than %d bytes", maxBody)
	case err != nil:
		return protocol.NewProblem(http.StatusBadRequest, protocol.ReasonBadRequest, "the body cannot be read: %v", err)
	case len(bytes.TrimSpace(data)) == 0 && mayBeEmpty:
		return nil
	}
	// A browser sends no other site's JSON without asking first.
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return protocol.NewProblem(http.StatusUnsupportedMediaType, protocol.ReasonBadRequest, "the body is JSON: say so with Content-Type: application/json")
	}
	if err := protocol.Decode(bytes.NewReader(data), into); err != nil {
		return explainJSON(err)
	}
	return nil
}

func explainJSON(err error) error {
	var kind *json.UnmarshalTypeError
	var field *protocol.FieldError
	switch {
	case errors.As(err, &field) && field.Known != nil:
		name := field.Field[strings.LastIndex(field.Field, ".")+1:]
		return badField(field.Field, "%s: %s", field.Message, fleet.DidYouMean(name, field.Known))
	case errors.As(err, &field):
		return badField(field.Field, "%s", field.Message)
	case errors.As(err, &kind) && kind.Field == "":
		return protocol.NewProblem(http.StatusBadRequest, protocol.ReasonBadRequest, "the body is %s, and should be %s", jsonValue(kind.Value), jsonKind(kind.Type))
	case errors.As(err, &kind):
		return badField(kind.Field, "it is %s, and should be %s", jsonValue(kind.Value), jsonKind(kind.Type))
	}
	return protocol.NewProblem(http.StatusBadRequest, protocol.ReasonBadRequest, "the body is no JSON value as it should be: %v", err)
}

// jsonValue is what stands there, as encoding/json calls it, in words.
func jsonValue(what string) string {
	if literal, number := strings.CutPrefix(what, "number "); number {
		return literal
	}
	switch what {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "string":
		return "text"
	case "bool":
		return "true or false"
	}
	return "a " + what
}

// jsonKind is what should stand there.
func jsonKind(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "text"
}

// specOf is what a request asks for, with defaults where it says nothing.
func specOf(server string, q view.DrillRequest, by string) (run.Spec, error) {
	s := run.Spec{
		Server: server, Stage: q.Stage, Upstream: q.Upstream, Mode: q.Mode, Seconds: q.DurationSeconds, Readiness: q.Readiness,
		Everyone: q.Everyone, Clients: q.Clients, Exclude: q.Exclude, Reason: q.Reason, By: by, Terminal: q.Terminal,
		Limits: run.DefaultLimits,
	}
	if q.Limits != nil {
		s.Limits = *q.Limits
	}
	if s.Stage == "" && s.Upstream != "" {
		s.Stage = run.StageUpstream
	}
	if s.Seconds == 0 {
		s.Seconds = protocol.DefaultDrillSeconds
	}
	s = s.WithDefaults()
	const most = 1000
	for _, l := range []struct {
		field string
		n     int
	}{{"clients", len(q.Clients)}, {"exclude", len(q.Exclude)}, {"monitors", len(q.Monitors)}} {
		if l.n > most {
			return s, badField(l.field, "%d are too many: at most %d; use prefixes or a group", l.n, most)
		}
	}
	if len(q.Reason) > most {
		return s, badField("reason", "it has %d bytes: at most %d", len(q.Reason), most)
	}
	for i, m := range q.Monitors {
		checked, field, err := fleet.CheckMonitor(m)
		if err != nil {
			return s, badField(fmt.Sprintf("monitors[%d].%s", i, field), "%v", err)
		}
		s.Monitors = append(s.Monitors, checked)
	}
	return s, nil
}

// fieldOf is the request's field that a refusal is about, where it is about one.
func fieldOf(reason run.Reason, s run.Spec, f *run.Facts) string {
	switch reason {
	case run.OutOfBounds:
		if e := s.Bounds(); e != nil {
			return e.Field
		}
	case run.ReasonMissing:
		return "reason"
	case run.TargetNotFound:
		if f.Server(s.Server) != nil {
			return "upstream"
		}
		return "server"
	case run.NoTargets:
		if s.OfUpstream() {
			return "upstream"
		}
		return "clients"
	}
	return ""
}

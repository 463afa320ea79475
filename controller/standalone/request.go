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
		return explainJSON(err, into)
	}
	return nil
}

func explainJSON(err error, into any) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return badField(kind.Field, "it is a %s, and should be %s", kind.Value, jsonKind(kind.Type))
	}
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		name = strings.Trim(name, `"`)
		return badField(name, "there is no such field: %s", fleet.DidYouMean(name, fieldNames(reflect.TypeOf(into))))
	}
	return protocol.NewProblem(http.StatusBadRequest, protocol.ReasonBadRequest, "the body is no JSON value as it should be: %v", err)
}

func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Float64:
		return "a number"
	}
	return "text"
}

// fieldNames are the names of a struct's fields in JSON, and of those in it.
func fieldNames(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var out []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(append(out, name), fieldNames(t.Field(i).Type)...)
	}
	return out
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

// outOfBounds names the request's field that a run of it is out of bounds by.
func outOfBounds(s run.Spec) string {
	switch {
	case s.Stage != run.StageServer && !s.OfUpstream():
		return "stage"
	case !s.AddressesUpstream():
		return "upstream"
	case !s.KnowsMode():
		return "mode"
	case !s.KnowsReadiness():
		return "readiness"
	case s.Seconds < protocol.MinDrillSeconds || s.Seconds > protocol.MaxDrillSeconds:
		return "durationSeconds"
	case s.OfUpstream() && len(s.Clients) > 0:
		return "clients"
	case s.OfUpstream() && len(s.Exclude) > 0:
		return "exclude"
	case s.Everyone == (len(s.Clients) > 0):
		return "clients"
	}
	return "limits"
}

// fieldOf is the request's field that a refusal is about, where it is about one.
func fieldOf(reason run.Reason, s run.Spec, f *run.Facts) string {
	switch reason {
	case run.OutOfBounds:
		return outOfBounds(s)
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

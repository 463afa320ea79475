package run

import (
	"fmt"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Bounds says which field of the spec is out of bounds, by its name in a
// request, and what is allowed; nil where none is.
func (s Spec) Bounds() *FieldError {
	bad := func(field, format string, args ...any) *FieldError {
		return &FieldError{Field: field, Message: fmt.Sprintf(format, args...)}
	}
	if s.OfUpstream() {
		if e := s.upstreamBounds(); e != nil {
			return e
		}
	}
	switch {
	case s.Stage != StageServer && !s.OfUpstream():
		return bad("stage", "it is %q; this version knows %q and %q", s.Stage, StageServer, StageUpstream)
	case !s.AddressesUpstream():
		return bad("upstream", "one is named, and stage is %q: write %q, or leave upstream out", s.Stage, StageUpstream)
	case !s.KnowsMode():
		return bad("mode", "it is %q; it is to be %q or %q", s.Mode, protocol.ModeDrop, protocol.ModeRefused)
	case !s.KnowsReadiness():
		return bad("readiness", "it is %q; it is to be %q or %q", s.Readiness, protocol.ReadinessFail, protocol.ReadinessPass)
	case s.Seconds < protocol.MinDrillSeconds || s.Seconds > protocol.MaxDrillSeconds:
		return bad("durationSeconds", "it is %d; it is to be between %d and %d", s.Seconds, protocol.MinDrillSeconds, protocol.MaxDrillSeconds)
	case !s.Everyone && len(s.Clients) == 0:
		return bad("clients", "nobody is named: give clients, or everyone")
	case s.Everyone && len(s.Clients) > 0:
		return bad("clients", "everyone and clients were both given: drop one of them")
	}
	if e := s.Limits.Bounds(); e != nil {
		return bad("limits."+e.Field, "%s", e.Message)
	}
	return nil
}

// Bounds says which of the limits cannot be, and what is allowed; nil where
// all can.
func (l Limits) Bounds() *FieldError {
	switch {
	case l.Stuck < 0:
		return &FieldError{"stuck", fmt.Sprintf("it is %d; it is to be 0 or more", l.Stuck)}
	case !(l.ErrorPoints >= 0 && l.ErrorPoints <= 100): // so that NaN is none
		return &FieldError{"errorPoints", fmt.Sprintf("it is %g; it is to be between 0 and 100", l.ErrorPoints)}
	case l.ExpectSeconds < 1:
		return &FieldError{"expectSeconds", fmt.Sprintf("it is %d; it is to be 1 or more", l.ExpectSeconds)}
	}
	return nil
}

package protocol

import (
	"fmt"
	"net/http"
	"net/netip"
	"unicode"
	"unicode/utf8"
)

// MaxDrillID is the longest ID of a drill.
const MaxDrillID = 64

// CheckDrillID says what is wrong with a drill's ID, or nil.
func CheckDrillID(id string) *Problem {
	if id == "" || len(id) > MaxDrillID {
		return NewProblem(http.StatusBadRequest, ReasonBadRequest,
			"a drill's id has 1 to %d characters, this one %d", MaxDrillID, len(id)).In("id")
	}
	for _, b := range []byte(id) {
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '.' && b != '-' {
			return NewProblem(http.StatusBadRequest, ReasonBadRequest,
				"%q is no drill's id: use only a to z, 0 to 9, dot and hyphen", id).In("id")
		}
	}
	return nil
}

// Most bytes of the texts of an order, which are only shown.
const (
	MaxFleet  = 253
	MaxBy     = 256
	MaxReason = 1024
)

// CheckText says what is wrong with a text that goes into logs, or nil: with a
// control character it could forge lines of them. Servers and controllers hold
// to the one rule, so that what a controller takes no server refuses later.
func CheckText(field, s string, least, most int) *Problem {
	bad := func(format string, args ...any) *Problem {
		return NewProblem(http.StatusBadRequest, ReasonBadRequest, format, args...).In(field)
	}
	switch n := len(s); {
	case n < least:
		return bad("it has %d bytes: use %d to %d", n, least, most)
	case n > most:
		return bad("it has %d bytes: use at most %d", n, most)
	case !utf8.ValidString(s):
		return bad("it is not UTF-8")
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return bad("it has a control character (%U): use one line of text", r)
		}
	}
	return nil
}

// ParsePrefixes reads a list of prefixes in canonical form: a prefix that could
// be read in two ways is refused. The problem names the element, as in
// "targets[3]".
func ParsePrefixes(field string, list []string) ([]netip.Prefix, *Problem) {
	if len(list) > MaxPrefixes {
		return nil, NewProblem(http.StatusBadRequest, ReasonBadRequest,
			"%d prefixes are too many: send at most %d, or wider ones", len(list), MaxPrefixes).In(field)
	}
	out := make([]netip.Prefix, 0, len(list))
	for i, s := range list {
		p, err := netip.ParsePrefix(s)
		bad := func(format string, args ...any) ([]netip.Prefix, *Problem) {
			return nil, NewProblem(http.StatusBadRequest, ReasonBadRequest, format, args...).In(fmt.Sprintf("%s[%d]", field, i))
		}
		switch {
		case err != nil:
			return bad("%q is no prefix: write ADDRESS/BITS; one address is a /32 or a /128", s)
		case p.Addr().Is4In6():
			return bad("%q is IPv4 inside IPv6: write it as IPv4", s)
		case p != p.Masked():
			return bad("%q has bits set beyond its length: did you mean %s?", s, p.Masked())
		}
		out = append(out, p)
	}
	return out, nil
}

package drill

import (
	"encoding/hex"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// order is a protocol.Order that has been checked.
type order struct {
	protocol.Order
	length  time.Duration
	targets []netip.Prefix // everyone: all addresses
	spared  []netip.Prefix // exclude and never
	token   [tokenLength]byte
}

// checkOrder holds an order to its bounds once more: a server does not trust its
// controller to have done so. The problem names the field.
func checkOrder(o protocol.Order) (*order, *protocol.Problem) {
	if problem := protocol.CheckDrillID(o.ID); problem != nil {
		return nil, problem
	}
	for _, text := range []struct {
		field, value string
		least, most  int
	}{{"fleet", o.Fleet, 1, protocol.MaxFleet}, {"by", o.By, 0, protocol.MaxBy}, {"reason", o.Reason, 0, protocol.MaxReason}} {
		if problem := protocol.CheckText(text.field, text.value, text.least, text.most); problem != nil {
			return nil, problem
		}
	}
	if o.Mode != protocol.ModeDrop && o.Mode != protocol.ModeRefused {
		return nil, bad("mode", "%q is no mode: use %q or %q", o.Mode, protocol.ModeDrop, protocol.ModeRefused)
	}
	if o.Readiness != protocol.ReadinessFail && o.Readiness != protocol.ReadinessPass {
		return nil, bad("readiness", "%q: use %q or %q", o.Readiness, protocol.ReadinessFail, protocol.ReadinessPass)
	}
	if o.DurationSeconds < protocol.MinDrillSeconds || o.DurationSeconds > protocol.MaxDrillSeconds {
		return nil, bad("durationSeconds", "%d is out of bounds: a drill takes %d to %d seconds",
			o.DurationSeconds, protocol.MinDrillSeconds, protocol.MaxDrillSeconds)
	}
	checked := &order{Order: o, length: time.Duration(o.DurationSeconds) * time.Second}
	token, err := hex.DecodeString(o.ProbeToken)
	if err != nil || len(token) != tokenLength {
		return nil, bad("probeToken", "it has %d hex digits, and is new for every drill", 2*tokenLength)
	}
	copy(checked.token[:], token)

	var problem *protocol.Problem
	if checked.targets, problem = protocol.ParsePrefixes("targets", o.Targets); problem != nil {
		return nil, problem
	}
	switch {
	case o.Everyone && len(o.Targets) > 0:
		return nil, bad("targets", "with everyone there are none: leave them out, or set everyone to false")
	case o.Everyone:
		checked.targets = []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	case len(o.Targets) == 0:
		return nil, bad("targets", "there are none: name prefixes, or set everyone to true")
	}
	for field, list := range map[string][]string{"exclude": o.Exclude, "never": o.Never} {
		prefixes, problem := protocol.ParsePrefixes(field, list)
		if problem != nil {
			return nil, problem
		}
		checked.spared = append(checked.spared, prefixes...)
	}
	return checked, nil
}

// same says whether two orders ask for the same.
func (o *order) same(other *order) bool {
	a, b := o.Order, other.Order
	lists := slices.Equal(a.Targets, b.Targets) && slices.Equal(a.Exclude, b.Exclude) && slices.Equal(a.Never, b.Never)
	return lists && a.ID == b.ID && a.Fleet == b.Fleet && a.Mode == b.Mode && a.DurationSeconds == b.DurationSeconds &&
		a.Readiness == b.Readiness && a.Everyone == b.Everyone && o.token == other.token && a.By == b.By && a.Reason == b.Reason
}

func bad(field, format string, args ...any) *protocol.Problem {
	return protocol.NewProblem(http.StatusBadRequest, protocol.ReasonBadRequest, format, args...).In(field)
}

func conflict(reason protocol.Reason, format string, args ...any) *protocol.Problem {
	return protocol.NewProblem(http.StatusConflict, reason, format, args...)
}

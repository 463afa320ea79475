package run

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// spared says why a drill leaves an address or a whole prefix alone although it
// was named; "" where it does not. Exclusions of the spec count as spared too,
// as excluded tells.
func (f *Facts) spared(p netip.Prefix) (why string, excluded bool) {
	in := func(q netip.Prefix) bool {
		return q.Bits() <= p.Bits() && q.Contains(p.Addr())
	}
	for _, own := range loopback() {
		if in(own) {
			return "it is loopback, the machine itself", false
		}
	}
	for _, t := range f.Servers {
		for _, a := range t.DNS {
			if ip := a.Addr().Unmap().WithZone(""); in(netip.PrefixFrom(ip, ip.BitLen())) {
				return "it is the address of " + t.Name, false
			}
		}
	}
	if slices.ContainsFunc(f.Infrastructure, in) {
		return "it is infrastructure, by the fleet file", false
	}
	if slices.ContainsFunc(f.Resolved.Exclude, in) {
		return "it is excluded", true
	}
	return "", false
}

// mostSpared is how many of those that are left alone a message names.
const mostSpared = 3

// nobody says why none of the clients that were named can be drilled.
func (f *Facts) nobody(server string) string {
	var never []string
	excluded, open := 0, 0
	for _, p := range f.Resolved.Prefixes {
		switch why, out := f.spared(p); {
		case out:
			excluded++
		case why != "":
			never = append(never, fmt.Sprintf("%s (%s)", short(p), why))
		default:
			open++
		}
	}
	// A prefix may be open and all that was seen of it be spared.
	inside := 0
	if t := f.Server(server); t != nil && open > 0 {
		for _, c := range t.Seen {
			a, ok := parseAddr(c.Address)
			if !ok || f.Now.Sub(c.Last) > seenWithin || !(Targets{Prefixes: f.Resolved.Prefixes}).Match(a) {
				continue
			}
			p := netip.PrefixFrom(a, a.BitLen())
			if why, _ := f.spared(p); why != "" && !slices.Contains(f.Resolved.Prefixes, p) {
				never = append(never, fmt.Sprintf("%s (%s)", short(p), why))
				inside++
			}
		}
	}
	if n := len(never); n > mostSpared {
		never = append(never[:mostSpared], fmt.Sprintf("and %d more", n-mostSpared))
	}
	switch named := strings.Join(never, ", "); {
	case open == 0 && len(never) == 0:
		return "all of the named clients are excluded: leave one of them in"
	case open == 0 && excluded == 0:
		return "never drilled: " + named
	case open == 0:
		return "all of the others are excluded; never drilled: " + named
	case inside > 0:
		return fmt.Sprintf("of these clients %s has seen only such as are left alone, in the last hour: %s", server, named)
	case len(never) > 0:
		return fmt.Sprintf("%s has seen none of the others in the last hour; never drilled: %s", server, named)
	}
	return server + " has seen none of these clients in the last hour"
}

// nobodyOfAll says that exclusions leave nobody of those whom the server saw;
// "" where somebody is left, or nobody was seen anyway.
func (f *Facts) nobodyOfAll(server string) string {
	t := f.Server(server)
	if t == nil {
		return ""
	}
	excluded := 0
	for _, c := range t.Seen {
		a, ok := parseAddr(c.Address)
		if !ok || f.Now.Sub(c.Last) > seenWithin {
			continue
		}
		switch why, out := f.spared(netip.PrefixFrom(a, a.BitLen())); {
		case out:
			excluded++
		case why == "":
			return ""
		}
	}
	if excluded == 0 {
		return ""
	}
	return fmt.Sprintf("all of the clients that %s has seen in the last hour are excluded: leave one of them in", server)
}

// short is a prefix as people write it: one address without its length.
func short(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// loopback are the two addresses that are the machine itself. The rest of
// 127.0.0.0/8 are clients.
func loopback() []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 32),
		netip.PrefixFrom(netip.IPv6Loopback(), 128),
	}
}

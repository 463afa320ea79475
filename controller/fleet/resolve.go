package fleet

import (
	"bufio"
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"firebreakdns.io/firebreak/controller/run"
)

// Unresolved is a client that was named and is not known.
type Unresolved struct {
	Field   string // as in clients[2]
	Name    string
	Message string // what to write instead
}

// Resolve turns clients as they were asked for into prefixes. They are
// addresses, prefixes, groups of the fleet file, or names: of the fleet file, of
// its hosts file, or that servers know (seen, lower-case names). What is not
// known comes back by its field; the rest is no use without it, since an
// exclusion that was left out would be an outage. Infrastructure is excluded
// from every drill.
func (c *Config) Resolve(everyone bool, clients, exclude []string, seen map[string][]netip.Addr) (run.Targets, []Unresolved) {
	t := run.Targets{Everyone: everyone}
	var missing []Unresolved
	t.Prefixes, missing = c.list("clients", clients, seen, missing)
	t.Exclude, missing = c.list("exclude", exclude, seen, missing)
	t.Exclude = tidy(append(t.Exclude, c.Infrastructure...))
	return t, missing
}

func (c *Config) list(field string, names []string, seen map[string][]netip.Addr, missing []Unresolved) ([]netip.Prefix, []Unresolved) {
	var out []netip.Prefix
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", field, i)
		if ps, ok := c.groups[strings.ToLower(name)]; ok {
			out = append(out, ps...)
			continue
		}
		ps, err := c.member(name)
		if err != nil {
			if addrs := seen[strings.ToLower(name)]; len(addrs) > 0 {
				ps = single(addrs)
			} else {
				missing = append(missing, Unresolved{Field: at, Name: name, Message: c.unknown(name, err, seen)})
				continue
			}
		}
		out = append(out, ps...)
	}
	return tidy(out), missing
}

func (c *Config) unknown(name string, err error, seen map[string][]netip.Addr) string {
	if looksLikeAddress(name) {
		return err.Error()
	}
	words := append(append(sorted(c.names), sorted(c.groups)...), sorted(seen)...)
	m := fmt.Sprintf("%q is not known: name an address, a prefix, a group or a name of the fleet file, or a client that was seen", name)
	if near := nearest(name, words); near != "" {
		m += fmt.Sprintf("; did you mean %q?", near)
	}
	return m
}

// member is an address, a prefix or a name of the fleet file.
func (c *Config) member(s string) ([]netip.Prefix, error) {
	if addrs, ok := c.names[strings.ToLower(s)]; ok {
		return single(addrs), nil
	}
	p, err := ParsePrefix(s)
	if err != nil && !looksLikeAddress(s) {
		known := "there are none: write an address or a prefix, or add the name"
		if names := sorted(c.names); len(names) > 0 {
			known = DidYouMean(s, names)
		}
		err = fmt.Errorf("%q is no address, no prefix and no name under names: %s", s, known)
	}
	if err != nil {
		return nil, err
	}
	return []netip.Prefix{p}, nil
}

// NameOf are the names of the fleet file and its hosts file by address: the
// first in the alphabet where there are more.
func (c *Config) NameOf() map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, name := range sorted(c.names) {
		for _, a := range c.names[name] {
			if _, ok := out[a]; !ok {
				out[a] = name
			}
		}
	}
	return out
}

func single(addrs []netip.Addr) []netip.Prefix {
	out := make([]netip.Prefix, len(addrs))
	for i, a := range addrs {
		a = a.Unmap().WithZone("")
		out[i] = netip.PrefixFrom(a, a.BitLen())
	}
	return out
}

// tidy sorts prefixes and keeps each once.
func tidy(ps []netip.Prefix) []netip.Prefix {
	slices.SortFunc(ps, netip.Prefix.Compare)
	return slices.Compact(ps)
}

// parseHosts reads /etc/hosts' form: an address, then names. Lines that are not
// so are passed over, as a resolver does.
func parseHosts(data []byte) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxFile)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		a, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, name := range fields[1:] {
			name = strings.ToLower(strings.TrimSuffix(name, "."))
			if a = a.Unmap().WithZone(""); !slices.Contains(out[name], a) {
				out[name] = append(out[name], a)
			}
		}
	}
	return out
}

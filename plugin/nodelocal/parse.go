package nodelocal

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/coredns/caddy"
	"github.com/miekg/dns"
)

// Defaults are NodeLocal DNSCache's where it has them.
const (
	defaultLink  = "nodelocaldns"
	defaultPort  = 53
	defaultCheck = "kubernetes.default.svc.cluster.local."
	defaultRules = "auto"
)

// maxAddresses is more than any node needs: two families, own and Services'.
const maxAddresses = 16

// options are what a Corefile says.
type options struct {
	addrs []netip.Addr // sorted
	link  string
	rules string
	port  uint16
	check string // a name, with its last dot
	keep  bool   // teardown keep
}

// same says whether two directives mean the same.
func (o *options) same(p *options) bool {
	return slices.Equal(o.addrs, p.addrs) && o.link == p.link && o.rules == p.rules && o.port == p.port && o.check == p.check && o.keep == p.keep
}

// parse reads the directive of one server block.
func parse(c *caddy.Controller) (*options, error) {
	var o *options
	for c.Next() {
		if o != nil {
			return nil, c.Err("nodelocal is given twice in a server block: keep one")
		}
		o = &options{link: defaultLink, rules: defaultRules, port: defaultPort, check: defaultCheck}
		for _, word := range c.RemainingArgs() {
			a, err := parseAddress(word)
			if err != nil {
				return nil, c.Err(err.Error())
			}
			if slices.Contains(o.addrs, a) {
				return nil, c.Errf("%s is given twice", a)
			}
			o.addrs = append(o.addrs, a)
		}
		switch {
		case len(o.addrs) == 0:
			return nil, c.Err("want the node's addresses: nodelocal 169.254.20.10, and the Service's if that is to be captured")
		case len(o.addrs) > maxAddresses:
			return nil, c.Errf("%d addresses are more than the %d that a node may have", len(o.addrs), maxAddresses)
		}
		slices.SortFunc(o.addrs, netip.Addr.Compare)
		seen := make(map[string]bool)
		for c.NextBlock() {
			word := c.Val()
			if seen[word] {
				return nil, c.Errf("%s is given twice", word)
			}
			seen[word] = true
			if err := o.option(word, c.RemainingArgs()); err != nil {
				return nil, c.Err(err.Error())
			}
		}
	}
	if o.rules == "none" && o.keep {
		return nil, c.Err("teardown keep is about rules, and there are none: remove one of the two")
	}
	return o, nil
}

// parseAddress reads an address that only this node has, or that only this node
// answers.
func parseAddress(word string) (netip.Addr, error) {
	a, err := netip.ParseAddr(word)
	if err != nil {
		if p, err := netip.ParsePrefix(word); err == nil {
			return a, fmt.Errorf("%q: write the address alone, %s: it gets the mask of a single host", word, p.Addr())
		}
		return a, fmt.Errorf("%q is no IP address: want the node's addresses, as in nodelocal 169.254.20.10", word)
	}
	const instead = "use 169.254.20.10, a unique local IPv6 address (fd00::/8), or a Service's"
	no := func(why string) (netip.Addr, error) {
		return a, fmt.Errorf("%s cannot be an address of the node's DNS: %s; %s", word, why, instead)
	}
	switch {
	case a.Zone() != "":
		return no("one with a zone stands in no pod's resolv.conf")
	case a.Is4In6():
		return no("it is an IPv4 address in IPv6's clothes: write " + a.Unmap().String())
	case a.IsUnspecified():
		return no("it stands for all addresses")
	case a.IsMulticast():
		return no("it is a multicast group")
	case a.IsLoopback():
		return no("each pod has that one for itself")
	case a.Is6() && a.IsLinkLocalUnicast():
		return no("resolv.conf cannot say on which link a link-local one is")
	case a.Is4() && (a.As4()[0] == 0 || a.As4()[0] >= 240):
		return no("no host can have it")
	}
	return a, nil
}

func (o *options) option(word string, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s wants one word, got %d", word, len(args))
	}
	arg := args[0]
	switch word {
	case "link":
		if err := checkLink(arg); err != nil {
			return err
		}
		o.link = arg
	case "rules":
		if !slices.Contains([]string{"auto", "nftables", "iptables", "none"}, arg) {
			return fmt.Errorf("rules %q: use auto (nftables, else iptables), nftables, iptables, or none where nothing translates the addresses", arg)
		}
		o.rules = arg
	case "port":
		n, err := strconv.ParseUint(arg, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("port %q: use 1 to 65535; 53 is where pods ask", arg)
		}
		o.port = uint16(n)
	case "check":
		if _, ok := dns.IsDomainName(arg); !ok || strings.Contains(arg, "/") {
			return fmt.Errorf("check %q is no domain name: use one that this server can resolve when it works, such as %s", arg, defaultCheck)
		}
		o.check = dns.CanonicalName(arg)
	case "teardown":
		if arg != "keep" && arg != "remove" {
			return fmt.Errorf("teardown %q: use remove (the default: the last one takes link, addresses and rules away) or keep (it leaves them for the next)", arg)
		}
		o.keep = arg == "keep"
	default:
		return fmt.Errorf("unknown property %q: there are link, rules, port, check and teardown", word)
	}
	return nil
}

// maxLink is the longest name of a link (IFNAMSIZ less its end).
const maxLink = 15

// checkLink says what is wrong with a link's name, as the kernel sees it.
func checkLink(name string) error {
	switch {
	case len(name) > maxLink:
		return fmt.Errorf("link %q has %d bytes, the kernel takes %d: use a shorter one", name, len(name), maxLink)
	case name == "." || name == ".." || name == "all" || name == "default":
		return fmt.Errorf("link %q: that name means something else to the kernel", name)
	}
	for _, r := range name {
		ok := r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !ok {
			return fmt.Errorf("link %q: use letters, digits, dots, dashes and underscores", name)
		}
	}
	if r := name[0]; r == '-' || r == '_' || r == '.' {
		return fmt.Errorf("link %q: begin with a letter or a digit", name)
	}
	return nil
}

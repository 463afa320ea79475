//go:build linux

package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Loopback is the link that is always there.
const Loopback = "lo"

// Kinds of error, for metrics.
var (
	// ErrTaken says that another link has the address.
	ErrTaken = errors.New("the address is taken")
	// ErrPermission says that the process may not change links.
	ErrPermission = errors.New("links cannot be changed")
	// ErrNoIPv6 says that IPv6 is off.
	ErrNoIPv6 = errors.New("IPv6 is off")
)

// Link is one of the node's, with the addresses that are ours.
type Link struct {
	name string // as the Corefile has it
	on   string // where the addresses are: name, or the loopback
	kind string
}

// New is the link of that name, which may not be there yet.
func New(name string) *Link {
	l := &Link{name: name, on: name}
	if name == Loopback {
		l.kind = "loopback"
	}
	return l
}

// Name is where the addresses are.
func (l *Link) Name() string { return l.on }

// Kind is dummy, ifb or loopback; "" before Put.
func (l *Link) Kind() string { return l.kind }

// Put has the link up with the addresses on it, and says what it had to do: each
// as words for people. What is there already stays as it is. Addresses that it adds
// end after lifetime; 0: never, also for those that would have ended.
func (l *Link) Put(addrs []netip.Addr, lifetime time.Duration) (did []string, err error) {
	on, made, err := l.ensure()
	if err != nil {
		return nil, err
	}
	if made != "" {
		did = append(did, made)
	}
	if on.Attrs().Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetUp(on); err != nil {
			return did, wrap("setting link "+l.on+" up", err)
		}
		if made == "" {
			did = append(did, "link "+l.on+" set up")
		}
	}
	has, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return did, wrap("listing addresses", err)
	}
	for _, a := range addrs {
		put, err := l.put(on, a, has, lifetime)
		if put != "" {
			did = append(did, put)
		}
		if err != nil {
			return did, err
		}
	}
	return did, nil
}

// ensure has the link there.
func (l *Link) ensure() (on netlink.Link, made string, err error) {
	if l.name == Loopback {
		on, err = netlink.LinkByName(Loopback)
		return on, "", err
	}
	on, err = netlink.LinkByName(l.name)
	if err == nil {
		if kind := on.Type(); kind != "dummy" && kind != "ifb" {
			return nil, "", fmt.Errorf("there is a link %s already, and it is a %s: give another name (link NAME), or remove it (ip link del %s)", l.name, kind, l.name)
		}
		l.on, l.kind = l.name, on.Type()
		return on, "", nil
	}
	var none netlink.LinkNotFoundError
	if !errors.As(err, &none) {
		return nil, "", wrap("looking for link "+l.name, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = l.name
	for _, link := range []netlink.Link{&netlink.Dummy{LinkAttrs: attrs}, &netlink.Ifb{LinkAttrs: attrs}} {
		err = netlink.LinkAdd(link)
		switch {
		case err == nil, errors.Is(err, unix.EEXIST): // another generation was faster
			l.on, l.kind = l.name, link.Type()
			if on, err = netlink.LinkByName(l.name); err != nil {
				return nil, "", wrap("looking for link "+l.name, err)
			}
			return on, "link " + l.name + " (" + l.kind + ") added", nil
		case errors.Is(err, unix.EOPNOTSUPP): // the kernel has none of this kind
		default:
			return nil, "", wrap("adding link "+l.name, err)
		}
	}
	l.on, l.kind = Loopback, "loopback"
	on, err = netlink.LinkByName(Loopback)
	return on, "", err
}

// put has one address on the link.
func (l *Link) put(on netlink.Link, a netip.Addr, has []netlink.Addr, lifetime time.Duration) (did string, err error) {
	ends := 0 // never
	for _, h := range has {
		if !h.IP.Equal(a.AsSlice()) {
			continue
		}
		if h.LinkIndex != on.Attrs().Index {
			return "", taken(a, h.LinkIndex)
		}
		if lifetime > 0 || h.ValidLft == 0 || uint32(h.ValidLft) == forever {
			return "", nil
		}
		// It is there, and would end.
		return "", wrap("keeping "+a.String(), netlink.AddrReplace(on, address(a, forever)))
	}
	if a.Is6() && ipv6Off(l.on) {
		return "", fmt.Errorf("%w in this kernel or on link %s: sysctl net.ipv6.conf.all.disable_ipv6=0 and net.ipv6.conf.default.disable_ipv6=0, or take %s out of the Corefile", ErrNoIPv6, l.on, a)
	}
	if lifetime > 0 {
		ends = int(lifetime / time.Second)
	}
	source := sourceTo(a)
	if err := netlink.AddrAdd(on, address(a, ends)); err != nil && !errors.Is(err, unix.EEXIST) {
		return "", wrap(fmt.Sprintf("adding %s to link %s", a, l.on), err)
	}
	if source.IsValid() {
		if err := keepSource(on, a, source); err != nil {
			return "", wrap(fmt.Sprintf("keeping %s as the source towards %s", source, a), err)
		}
	}
	return fmt.Sprintf("%s added to link %s", a, l.on), nil
}

// forever is the lifetime of what does not end.
const forever = 0xffffffff

func address(a netip.Addr, seconds int) *netlink.Addr {
	n := &netlink.Addr{IPNet: hostNet(a), ValidLft: seconds, PreferedLft: seconds}
	if a.Is6() {
		n.Flags = unix.IFA_F_NODAD
	}
	return n
}

func hostNet(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// taken says who has an address.
func taken(a netip.Addr, index int) error {
	name, kind := fmt.Sprintf("%d", index), ""
	if other, err := netlink.LinkByIndex(index); err == nil {
		name, kind = other.Attrs().Name, " ("+other.Type()+")"
	}
	fix := "remove it there (ip addr del " + a.String() + " dev " + name + "), or choose another address"
	if name == "kube-ipvs0" {
		fix = "kube-proxy runs in IPVS mode and has the Services' addresses itself: leave " + a.String() + " out, and have the kubelet give pods a link-local one (clusterDNS)"
	}
	return fmt.Errorf("%w: %s is on link %s%s: %s", ErrTaken, a, name, kind, fix)
}

// wrap says what to do about an error of the kernel.
func wrap(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %s: %w: give the process the capability NET_ADMIN", ErrPermission, doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// ipv6Off says whether a link cannot have IPv6 addresses.
func ipv6Off(link string) bool {
	b, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + link + "/disable_ipv6")
	if os.IsNotExist(err) {
		return true
	}
	return err == nil && strings.TrimSpace(string(b)) == "1"
}

// find finds the link; nil: it is not there.
func (l *Link) find() (netlink.Link, error) {
	on, err := netlink.LinkByName(l.on)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil, nil
	}
	return on, err
}

// Missing are those addresses that are not on the link as they are to be.
func (l *Link) Missing(addrs []netip.Addr) ([]netip.Addr, error) {
	on, err := l.find()
	if err != nil || on == nil {
		return addrs, err
	}
	has, err := netlink.AddrList(on, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	var missing []netip.Addr
	for _, a := range addrs {
		there := slices.ContainsFunc(has, func(h netlink.Addr) bool { return h.IP.Equal(a.AsSlice()) })
		if !there || on.Attrs().Flags&net.FlagUp == 0 {
			missing = append(missing, a)
		}
	}
	return missing, nil
}

// Drop takes addresses off the link. Those that are not there are no error.
func (l *Link) Drop(addrs []netip.Addr) error {
	on, err := l.find()
	if err != nil || on == nil {
		return err
	}
	var errs []error
	for _, a := range addrs {
		err := netlink.AddrDel(on, &netlink.Addr{IPNet: hostNet(a)})
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			errs = append(errs, wrap("removing "+a.String(), err))
		}
		dropRoute(on, a)
	}
	return errors.Join(errs...)
}

// Others are the addresses on a link of our own that are none of these: what an
// older Corefile or another program left. The kernel's own link-local one is none.
func (l *Link) Others(addrs []netip.Addr) ([]netip.Addr, error) {
	if l.on == Loopback {
		return nil, nil
	}
	on, err := netlink.LinkByName(l.on)
	if err != nil {
		return nil, err
	}
	has, err := netlink.AddrList(on, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	var others []netip.Addr
	for _, h := range has {
		a, ok := netip.AddrFromSlice(h.IP)
		if a = a.Unmap(); !ok || a.Is6() && a.IsLinkLocalUnicast() {
			continue
		}
		if !slices.Contains(addrs, a) {
			others = append(others, a)
		}
	}
	return others, nil
}

// Remove takes the link away; of the loopback only the addresses.
func (l *Link) Remove(addrs []netip.Addr) error {
	if l.on == Loopback {
		return l.Drop(addrs)
	}
	on, err := l.find()
	if err != nil || on == nil {
		return err
	}
	return wrap("removing link "+l.on, netlink.LinkDel(on))
}

// Exists says whether there is a link of that name.
func Exists(name string) bool {
	_, err := netlink.LinkByName(name)
	return err == nil
}

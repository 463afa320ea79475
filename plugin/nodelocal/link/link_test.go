//go:build linux

package link

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"firebreakdns.io/firebreak/plugin/nodelocal/netnstest"
)

var (
	v4 = netip.MustParseAddr("169.254.20.10")
	v6 = netip.MustParseAddr("fd00:20::10")
)

func up(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(l); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestPutAndRemove(t *testing.T) {
	netnstest.Need(t)
	up(t, "lo")
	l := New("dns0")
	did, err := l.Put([]netip.Addr{v4, v6}, time.Minute)
	if err != nil || len(did) != 3 {
		t.Fatalf("Put = %q, %v, want a link and two addresses", did, err)
	}
	if l.Kind() != "dummy" && l.Kind() != "ifb" {
		t.Errorf("kind = %q", l.Kind())
	}
	on := up(t, "dns0")
	lifetimes := func() (all []int) {
		has, err := netlink.AddrList(on, netlink.FAMILY_ALL)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range has {
			if !h.IP.IsLinkLocalUnicast() || h.IP.Equal(v4.AsSlice()) {
				all = append(all, h.ValidLft)
				if size, bits := h.Mask.Size(); size != bits {
					t.Errorf("%s has a mask of %d", h.IP, size)
				}
				if h.IP.To4() == nil && h.Flags&unix.IFA_F_TENTATIVE != 0 {
					t.Errorf("%s is tentative: it cannot be bound", h.IP)
				}
			}
		}
		return all
	}
	for _, s := range lifetimes() {
		if s > 60 || s < 50 {
			t.Errorf("an address lasts for %d s, want a minute", s)
		}
	}
	// Nothing to do: nothing done; not even made shorter.
	if did, err := l.Put([]netip.Addr{v4, v6}, time.Second); err != nil || len(did) != 0 {
		t.Errorf("the second Put = %q, %v", did, err)
	}
	if _, err := l.Put([]netip.Addr{v4, v6}, 0); err != nil {
		t.Fatal(err)
	}
	for _, s := range lifetimes() {
		if uint32(s) != forever {
			t.Errorf("an address lasts for %d s, want for ever", s)
		}
	}
	if err := l.Drop([]netip.Addr{v6}); err != nil {
		t.Fatal(err)
	}
	if missing, err := l.Missing([]netip.Addr{v4, v6}); err != nil || !slices.Equal(missing, []netip.Addr{v6}) {
		t.Errorf("missing = %v, %v", missing, err)
	}
	if others, err := l.Others([]netip.Addr{v6}); err != nil || !slices.Equal(others, []netip.Addr{v4}) {
		t.Errorf("others = %v, %v", others, err)
	}
	if err := netlink.LinkSetDown(on); err != nil {
		t.Fatal(err)
	}
	if missing, err := l.Missing([]netip.Addr{v4}); err != nil || len(missing) != 1 {
		t.Errorf("a link that is down lacks nothing: %v, %v", missing, err)
	}
	if err := l.Remove(nil); err != nil || Exists("dns0") {
		t.Errorf("Remove = %v, exists %v", err, Exists("dns0"))
	}
	if err := l.Remove(nil); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
	if missing, err := l.Missing([]netip.Addr{v4}); err != nil || len(missing) != 1 {
		t.Errorf("without the link nothing is missing: %v, %v", missing, err)
	}
}

// Addresses on the loopback, which has others that are not ours.
func TestLoopback(t *testing.T) {
	netnstest.Need(t)
	up(t, "lo")
	l := New(Loopback)
	if _, err := l.Put([]netip.Addr{v4, v6}, 0); err != nil {
		t.Fatal(err)
	}
	if others, err := l.Others(nil); err != nil || len(others) != 0 {
		t.Errorf("others on the loopback = %v, %v: they are not ours", others, err)
	}
	if err := l.Remove([]netip.Addr{v4, v6}); err != nil {
		t.Fatal(err)
	}
	has, err := netlink.AddrList(up(t, "lo"), netlink.FAMILY_ALL)
	if err != nil || len(has) != 2 {
		t.Errorf("the loopback has %v, %v, want its own two", has, err)
	}
}

func TestTaken(t *testing.T) {
	netnstest.Need(t)
	other := New("other")
	if _, err := other.Put([]netip.Addr{v4}, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Remove(nil) }()
	l := New("dns1")
	defer func() { _ = l.Remove(nil) }()
	if _, err := l.Put([]netip.Addr{v4}, 0); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), "ip addr del 169.254.20.10 dev other") {
		t.Errorf("Put = %v, want who has it", err)
	}
}

func TestIPv6Off(t *testing.T) {
	netnstest.Need(t)
	const file = "/proc/sys/net/ipv6/conf/default/disable_ipv6"
	if err := os.WriteFile(file, []byte("1"), 0); err != nil {
		t.Skipf("skipped: IPv6 cannot be switched off here: %v", err)
	}
	defer func() { _ = os.WriteFile(file, []byte("0"), 0) }()
	l := New("dns2")
	defer func() { _ = l.Remove(nil) }()
	if _, err := l.Put([]netip.Addr{v6}, 0); !errors.Is(err, ErrNoIPv6) || !strings.Contains(err.Error(), "sysctl") {
		t.Errorf("Put = %v, want what to switch on", err)
	}
	if _, err := l.Put([]netip.Addr{v4}, 0); err != nil {
		t.Errorf("IPv4 does not need IPv6: %v", err)
	}
}

// The host sends to an address with the source that it had before, and no route
// stays behind.
func TestKeepsTheSource(t *testing.T) {
	netnstest.Need(t)
	up(t, "lo")
	uplink := New("uplink")
	near4, near6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	if _, err := uplink.Put([]netip.Addr{near4, near6}, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = uplink.Remove(nil) }()
	on := up(t, "uplink")
	for _, r := range []*netlink.Route{
		{LinkIndex: on.Attrs().Index, Src: near4.AsSlice(), Dst: hostNet(netip.MustParseAddr("10.96.0.10"))},
		{LinkIndex: on.Attrs().Index, Dst: hostNet(netip.MustParseAddr("fd00:96::a"))},
	} {
		if err := netlink.RouteAdd(r); err != nil {
			t.Fatal(err)
		}
	}
	l := New("dns3")
	services := []netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00:96::a")}
	if _, err := l.Put(services, 0); err != nil {
		t.Fatal(err)
	}
	for i, want := range []netip.Addr{near4, near6} {
		routes, err := netlink.RouteGet(services[i].AsSlice())
		if err != nil || len(routes) == 0 || !routes[0].Src.Equal(want.AsSlice()) || routes[0].Type != unix.RTN_LOCAL {
			t.Errorf("to %s: %+v, %v, want a local route with the source %s", services[i], routes, err, want)
		}
	}
	if err := l.Drop(services); err != nil {
		t.Fatal(err)
	}
	for _, s := range services {
		routes, err := netlink.RouteGet(s.AsSlice())
		if err != nil || len(routes) == 0 || routes[0].Type == unix.RTN_LOCAL {
			t.Errorf("to %s after Drop: %+v, %v, want the way out", s, routes, err)
		}
	}
	_ = l.Remove(nil)
}

func TestWatch(t *testing.T) {
	netnstest.Need(t)
	seen := make(chan struct{}, 1)
	stop, err := Watch(func() {
		select {
		case seen <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	l := New("dns4")
	if _, err := l.Put([]netip.Addr{v4}, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Remove(nil) }()
	select {
	case <-seen:
	case <-time.After(2 * time.Second):
		t.Error("nothing was seen")
	}
}

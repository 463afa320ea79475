package wire

import (
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// groups are the process's, by address. They outlive reloads: a new Corefile
// finds the sockets open and only changes who answers.
var groups = &registry{open: make(map[string]*Group), began: time.Now().UnixNano()}

type registry struct {
	mu    sync.Mutex
	open  map[string]*Group
	began int64 // of the process, Unix ns
}

// Open opens a group of sockets at an address of CoreDNS's, or finds the one that
// is open, of however many sockets. It must be called before CoreDNS opens its
// own, so that no packet is queued there first. Nobody answers yet: see Use.
func Open(addr string, sockets int) (*Group, error) {
	groups.mu.Lock()
	defer groups.mu.Unlock()
	if g := groups.open[addr]; g != nil {
		return g, nil
	}
	g, err := open(addr, sockets, groups.began)
	if err != nil {
		return nil, err
	}
	groups.open[addr] = g
	time.AfterFunc(useWithin, func() { groups.dropUnused(g) })
	return g, nil
}

// useWithin is how long a group may stay open with nobody to answer: the kernel
// gives it packets all the same. A Corefile that starts serves long before.
const useWithin = 10 * time.Second

func (r *registry) dropUnused(g *Group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[g.Addr()] == g && !g.Used() {
		delete(r.open, g.Addr())
		g.close()
	}
}

// Find is the group that is open at an address, or nil.
func Find(addr string) *Group {
	groups.mu.Lock()
	defer groups.mu.Unlock()
	return groups.open[addr]
}

// reaching is the group that gets what is sent to an address: its own, or that of
// every address.
func reaching(addr netip.AddrPort) *Group {
	port := strconv.Itoa(int(addr.Port()))
	for _, at := range []string{addr.String(), ":" + port, "[::]:" + port, "0.0.0.0:" + port} {
		if g := Find(at); g != nil {
			return g
		}
	}
	return nil
}

// CloseAllBut closes the groups of all other addresses. CoreDNS's own sockets get
// their packets from then on; what was queued is answered first.
func CloseAllBut(wanted map[string]bool) {
	groups.mu.Lock()
	defer groups.mu.Unlock()
	for addr, g := range groups.open {
		if !wanted[addr] {
			delete(groups.open, addr)
			g.close()
		}
	}
}

// Groups are those that are open.
func Groups() []*Group {
	groups.mu.Lock()
	defer groups.mu.Unlock()
	out := make([]*Group, 0, len(groups.open))
	for _, g := range groups.open {
		out = append(out, g)
	}
	return out
}

//go:build linux

package rules

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// nft has the rules in a table of this process: inet firebreak-LINK-ID.
type nft struct {
	o     Options
	conn  *nftables.Conn // keeps its socket: an owned table lives as long
	raw   *netlink.Conn
	table *nftables.Table
	owned bool
	// written are the handles of the rules in each chain, as the kernel numbered them.
	written map[string][]uint64
	// seen is the ruleset's number when they were last found whole.
	seen    uint32
	applied Set
}

func prefix(link string) string { return "firebreak-" + link + "-" }

func openNFT(o Options) (Backend, error) {
	n := &nft{o: o, table: &nftables.Table{Name: prefix(o.Link) + o.ID, Family: nftables.TableFamilyINet}}
	if err := n.open(); err != nil {
		return nil, err
	}
	// The table is there: does the kernel also take what is to stand in it?
	probe := Set{Port: 53, Probe: []netip.Addr{netip.AddrFrom4([4]byte{169, 254, 0, 1}), netip.MustParseAddr("fd00::1")}}
	if err := n.Apply(probe); err != nil {
		return nil, errors.Join(err, n.Close(false))
	}
	if err := n.Apply(Set{Port: 53}); err != nil {
		return nil, errors.Join(err, n.Close(false))
	}
	return n, nil
}

// open makes the socket and, with it, the table.
func (n *nft) open() error {
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		n.raw = c
		return nil
	}))
	if err != nil {
		return err
	}
	n.conn, n.written = conn, nil
	if n.o.Keep {
		n.owned = false
		return nil // Apply makes it
	}
	switch err := createOwned(n.raw, n.table.Name); {
	case err == nil:
		n.owned = true
	case errors.Is(err, errNoOwners):
		n.owned = false
	default:
		return errors.Join(said(err), conn.CloseLasting())
	}
	return nil
}

// said adds what to do to an error of the kernel.
func said(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: give the process the capability NET_ADMIN", err)
	}
	return err
}

// Name implements Backend.
func (n *nft) Name() string { return NFTables }

// Where implements Backend.
func (n *nft) Where() string { return "table inet " + n.table.Name }

// Shared implements Backend: each generation has a table of its own.
func (n *nft) Shared() bool { return false }

// Apply implements Backend.
func (n *nft) Apply(s Set) error {
	err := n.apply(s)
	if err != nil {
		// After an error nobody knows what the socket will say next, or whether the
		// table is still its own: begin with a new one. What was in force is gone then.
		_ = n.conn.CloseLasting()
		if e := n.open(); e != nil {
			return errors.Join(err, e)
		}
		err = n.apply(s)
	}
	return said(err)
}

func (n *nft) apply(s Set) error {
	if err := n.raw.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	if !n.owned {
		n.conn.AddTable(n.table)
	}
	chains := n.chains()
	for _, c := range chains {
		n.conn.AddChain(c)
		n.conn.FlushChain(c)
	}
	for _, c := range chains {
		for _, r := range rulesOf(s, c.Name) {
			n.conn.AddRule(&nftables.Rule{
				Table: n.table, Chain: c, Exprs: r.exprs(),
				UserData: userdata.AppendString(nil, userdata.TypeComment, r.comment()),
			})
		}
	}
	if err := n.conn.Flush(); err != nil {
		return fmt.Errorf("writing %s: %w", n.Where(), err)
	}
	written, err := n.handles()
	if err != nil {
		return fmt.Errorf("reading %s: %w", n.Where(), err)
	}
	n.written, n.seen, n.applied = written, 0, s
	return nil
}

// Names of our chains. Two stand before connection tracking: of what comes in, and
// of what is sent from here. The last one stands behind all that the host filters, and
// counts what is left.
const (
	prerouting = "prerouting"
	output     = "output"
	input      = "input"
)

func (n *nft) chains() []*nftables.Chain {
	accept := nftables.ChainPolicyAccept
	chain := func(name string, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
		return &nftables.Chain{Name: name, Table: n.table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: priority, Policy: &accept}
	}
	return []*nftables.Chain{
		chain(prerouting, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw),
		chain(output, nftables.ChainHookOutput, nftables.ChainPriorityRaw),
		chain(input, nftables.ChainHookInput, nftables.ChainPriorityRef(1000)),
	}
}

// handles are those of the rules that are there now. They are read through another
// socket, so that what goes wrong does not end the table.
func (n *nft) handles() (map[string][]uint64, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	found := make(map[string][]uint64)
	for _, c := range n.chains() {
		rules, err := conn.GetRules(n.table, c)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			found[c.Name] = append(found[c.Name], r.Handle)
		}
	}
	return found, nil
}

// Intact implements Backend. The kernel numbers rules anew with each change, so
// the same numbers are the same rules; and nothing is read while nobody changed
// anything.
func (n *nft) Intact() (bool, error) {
	number, err := generation()
	if err != nil {
		return false, err
	}
	if number == n.seen {
		return true, nil
	}
	whole, err := n.whole()
	if err == nil && whole {
		n.seen = number
	}
	return whole, err
}

// whole reads what is there.
func (n *nft) whole() (bool, error) {
	conn, err := nftables.New()
	if err != nil {
		return false, err
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == n.table.Name }) {
		return false, nil
	}
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, err
	}
	for _, want := range n.chains() {
		if !slices.ContainsFunc(chains, func(c *nftables.Chain) bool {
			return c.Table.Name == n.table.Name && c.Name == want.Name && c.Hooknum != nil && *c.Hooknum == *want.Hooknum && *c.Priority == *want.Priority
		}) {
			return false, nil
		}
	}
	found, err := n.handles()
	if err != nil {
		return false, err
	}
	for _, c := range n.chains() {
		if !slices.Equal(found[c.Name], n.written[c.Name]) {
			return false, nil
		}
	}
	return true, nil
}

// Sweep implements Backend. A table with an owner has one that lives.
func (n *nft) Sweep(living []string) ([]string, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, t := range tables {
		id, ok := strings.CutPrefix(t.Name, prefix(n.o.Link))
		if !ok || id == n.o.ID || flags(t)&flagOwner != 0 || slices.Contains(living, id) {
			continue
		}
		conn.DelTable(t)
		if err := conn.Flush(); err != nil {
			return removed, fmt.Errorf("removing table inet %s: %w", t.Name, said(err))
		}
		removed = append(removed, "table inet "+t.Name)
	}
	return removed, nil
}

// Close implements Backend.
func (n *nft) Close(keep bool) error {
	var err error
	if !n.owned && !keep {
		if e := n.raw.SetDeadline(time.Now().Add(answerWithin)); e == nil {
			n.conn.AddTable(n.table) // so that its removal cannot fail
			n.conn.DelTable(n.table)
			err = n.conn.Flush()
		}
	}
	return errors.Join(err, n.conn.CloseLasting())
}

// Flows implements Backend.
func (n *nft) Flows() (map[netip.Addr]Flow, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	flows := make(map[netip.Addr]Flow)
	for _, c := range n.chains() {
		specs := rulesOf(n.applied, c.Name)
		if !slices.ContainsFunc(specs, func(r rule) bool { return r.counts }) {
			continue
		}
		found, err := conn.GetRules(n.table, c)
		if err != nil {
			return nil, err
		}
		if len(found) != len(specs) {
			return nil, nil // somebody changed them: Intact will say so
		}
		for i, r := range found {
			for _, e := range r.Exprs {
				counter, ok := e.(*expr.Counter)
				if !ok || !specs[i].counts {
					continue
				}
				f := flows[specs[i].addr]
				if c.Name == input {
					f.Passed += counter.Packets
				} else {
					f.Arrived += counter.Packets
				}
				flows[specs[i].addr] = f
			}
		}
	}
	return flows, nil
}

// rule keeps one kind of packets out of connection tracking, or counts them.
type rule struct {
	addr     netip.Addr
	protocol byte
	port     uint16
	from     bool // packets of the address's server, else those to it
	itself   bool // only what the address sends to itself
	counts   bool // what does not come from this host itself
}

// rulesOf are a chain's.
func rulesOf(s Set, chain string) (all []rule) {
	add := func(addrs []netip.Addr, itself bool) {
		for _, a := range addrs {
			for _, p := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
				r := rule{addr: a, protocol: p, port: s.Port, itself: itself}
				if chain != input {
					all = append(all, r)
				}
				if chain == output {
					r.from = true
					all = append(all, r)
				} else if !itself {
					r.counts = true
					all = append(all, r)
				}
			}
		}
	}
	add(s.Probe, true)
	add(s.Capture, false)
	return all
}

func (r rule) comment() string {
	switch {
	case r.counts:
		return "Firebreak: does what is sent to " + r.addr.String() + " get through?"
	case r.itself:
		return "Firebreak: " + r.addr.String() + " is tried before it is captured"
	}
	return "Firebreak: " + r.addr.String() + " is answered on this node"
}

// Offsets in the headers.
const (
	source4, destination4 = 12, 16
	source6, destination6 = 8, 24
	sourcePort, destPort  = 0, 2
)

func (r rule) exprs() []expr.Any {
	family, length, source, destination := byte(unix.NFPROTO_IPV4), uint32(4), uint32(source4), uint32(destination4)
	if r.addr.Is6() {
		family, length, source, destination = unix.NFPROTO_IPV6, 16, source6, destination6
	}
	address := func(offset uint32) []expr.Any {
		return []expr.Any{
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: r.addr.AsSlice()},
		}
	}
	port := uint32(destPort)
	if r.from {
		port = sourcePort
	}
	out := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
	}
	verdict := expr.Any(&expr.Notrack{})
	if r.counts {
		verdict = &expr.Counter{}
		out = append(out,
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: append([]byte("lo"), make([]byte, 14)...)},
		)
	}
	if r.from || r.itself {
		out = append(out, address(source)...)
	}
	if !r.from || r.itself {
		out = append(out, address(destination)...)
	}
	return append(out,
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{r.protocol}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: port, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, r.port)},
		verdict,
	)
}

//go:build linux

package rules

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
)

// Firewall is a rule of the host that drops what is not tracked, and so would drop
// what is captured: an accept in another table does not overrule it.
type Firewall struct {
	Family, Table, Chain string
	Handle               uint64
}

// String says where it is.
func (f *Firewall) String() string {
	return fmt.Sprintf("a rule in nftables drops untracked packets (table %s %s, chain %s, handle %d)", f.Family, f.Table, f.Chain, f.Handle)
}

// Fix says what to do about it, for one address.
func (f *Firewall) Fix(addr netip.Addr, port uint16) string {
	ip := "ip"
	if addr.Is6() {
		ip = "ip6"
	}
	at := fmt.Sprintf("insert rule %s %s %s %s", f.Family, f.Table, f.Chain, ip)
	const dns = "meta l4proto { tcp, udp } th"
	return fmt.Sprintf("accept the DNS of the node ahead of it: nft '%s daddr %s %s dport %d accept; %s saddr %s %s sport %d accept'", at, addr, dns, port, at, addr, dns, port)
}

// Look searches the host's nftables for a rule that drops untracked packets and
// nothing narrower, with no rule ahead of it in its chain that accepts the
// address or the port. nil: none found, which is no proof; what the policy of a
// chain does, or iptables-legacy, is only seen by asking.
func Look(addr netip.Addr, port uint16) (*Firewall, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	chains, err := conn.ListChains()
	if err != nil {
		return nil, err
	}
	l := &look{conn: conn, chains: chains, addr: addr, port: port, seen: make(map[*nftables.Chain]bool)}
	for _, c := range chains {
		if c.Hooknum == nil || !sees(c, addr) {
			continue
		}
		if found, _ := l.walk(c); found != nil {
			return found, nil
		}
	}
	return nil, nil
}

// look is one search.
type look struct {
	conn   *nftables.Conn
	chains []*nftables.Chain
	addr   netip.Addr
	port   uint16
	seen   map[*nftables.Chain]bool
}

// walk goes through a chain and where it goes to. over says that packets to the
// address are accepted there, so that what comes after does not matter.
func (l *look) walk(c *nftables.Chain) (found *Firewall, over bool) {
	if l.seen[c] {
		return nil, false
	}
	l.seen[c] = true
	rules, err := l.conn.GetRules(c.Table, c)
	if err != nil {
		return nil, false // it went away meanwhile
	}
	for _, r := range rules {
		if accepts(r, l.addr, l.port) {
			return nil, true
		}
		if dropsUntracked(l.conn, r) {
			return &Firewall{Family: familyName(c.Table.Family), Table: c.Table.Name, Chain: c.Name, Handle: r.Handle}, true
		}
		for _, e := range r.Exprs {
			v, ok := e.(*expr.Verdict)
			if !ok || v.Kind != expr.VerdictJump && v.Kind != expr.VerdictGoto {
				continue
			}
			for _, to := range l.chains {
				if to.Name == v.Chain && to.Table.Name == c.Table.Name && to.Table.Family == c.Table.Family {
					if found, over := l.walk(to); found != nil || over {
						return found, over
					}
				}
			}
		}
	}
	return nil, false
}

// sees says whether a packet to the address comes by: in a base chain of its
// family, at a hook on its way.
func sees(c *nftables.Chain, addr netip.Addr) bool {
	switch c.Table.Family {
	case nftables.TableFamilyINet:
	case nftables.TableFamilyIPv4:
		if addr.Is6() {
			return false
		}
	case nftables.TableFamilyIPv6:
		if addr.Is4() {
			return false
		}
	default:
		return false
	}
	if strings.HasPrefix(c.Table.Name, "firebreak-") {
		return false
	}
	return *c.Hooknum == *nftables.ChainHookPrerouting || *c.Hooknum == *nftables.ChainHookInput || *c.Hooknum == *nftables.ChainHookOutput
}

func familyName(f nftables.TableFamily) string {
	switch f {
	case nftables.TableFamilyIPv4:
		return "ip"
	case nftables.TableFamilyIPv6:
		return "ip6"
	}
	return "inet"
}

// accepts says whether the rule accepts packets to the address or the port, as
// far as one can tell without running it.
func accepts(r *nftables.Rule, addr netip.Addr, port uint16) bool {
	accept, ours := false, false
	for _, e := range r.Exprs {
		switch e := e.(type) {
		case *expr.Verdict:
			accept = accept || e.Kind == expr.VerdictAccept
		case *expr.Cmp:
			if e.Op == expr.CmpOpEq && (bytes.Equal(e.Data, addr.AsSlice()) || bytes.Equal(e.Data, binary.BigEndian.AppendUint16(nil, port))) {
				ours = true
			}
		}
	}
	return accept && ours
}

// dropsUntracked says whether the rule drops by the state of tracking alone, and
// untracked is among the states.
func dropsUntracked(conn *nftables.Conn, r *nftables.Rule) bool {
	states, known := uint32(0), false
	loaded := uint32(0) // the register that has the state
	mask := ^uint32(0)
	for _, e := range r.Exprs {
		switch e := e.(type) {
		case *expr.Ct:
			if e.Key != expr.CtKeySTATE || e.SourceRegister {
				return false
			}
			loaded, mask = e.Register, ^uint32(0)
		case *expr.Bitwise:
			if loaded == 0 || e.SourceRegister != loaded || len(e.Mask) != 4 {
				return false
			}
			loaded, mask = e.DestRegister, binary.NativeEndian.Uint32(e.Mask)
		case *expr.Cmp:
			if loaded == 0 || e.Register != loaded || len(e.Data) != 4 {
				return false // it asks for something else as well
			}
			value := binary.NativeEndian.Uint32(e.Data)
			switch {
			case e.Op == expr.CmpOpNeq && value == 0:
				states, known = mask, true
			case e.Op == expr.CmpOpEq:
				states, known = value, true
			default:
				return false
			}
		case *expr.Lookup:
			if loaded == 0 || e.SourceRegister != loaded || e.Invert {
				return false
			}
			elements, err := conn.GetSetElements(&nftables.Set{Table: r.Table, Name: e.SetName})
			if err != nil {
				return false
			}
			for _, el := range elements {
				if len(el.Key) == 4 {
					v := binary.NativeEndian.Uint32(el.Key)
					// In a verdict map, each state has its own.
					if e.IsDestRegSet && drops(el.Val) && v&expr.CtStateBitUNTRACKED != 0 {
						return true
					}
					states |= v
				}
			}
			known = !e.IsDestRegSet
		case *expr.Match: // of iptables
			if e.Name == "comment" {
				continue
			}
			if states, known = matchedStates(e); !known {
				return false
			}
		case *expr.Target:
			return known && states&expr.CtStateBitUNTRACKED != 0 && e.Name == "DROP"
		case *expr.Reject:
			return known && states&expr.CtStateBitUNTRACKED != 0
		case *expr.Verdict:
			return known && states&expr.CtStateBitUNTRACKED != 0 && e.Kind == expr.VerdictDrop
		case *expr.Counter, *expr.Log, *expr.Limit:
		case *expr.Meta, *expr.Payload, *expr.Range, *expr.Fib:
			return false // narrower
		default:
			return false
		}
	}
	return false
}

// drops says whether an element of a verdict map is a drop. The library leaves it as
// the kernel sent it: an attribute with the verdict's number, of which 0 is drop.
func drops(verdict []byte) bool {
	const header = 4
	return len(verdict) >= header+4 && binary.BigEndian.Uint32(verdict[header:]) == 0
}

// Bits of iptables's conntrack match.
const (
	xtState      = 1 << 0
	xtStateAlias = 1 << 13
	xtInvalid    = 1 << 0
	xtUntracked  = 1 << 6
)

// matchedStates are those of iptables's `-m conntrack --ctstate`, in nftables's
// bits, where it asks for nothing else.
func matchedStates(m *expr.Match) (states uint32, ok bool) {
	var base xt.ConntrackMtinfoBase
	var mask uint16
	switch info := m.Info.(type) {
	case *xt.ConntrackMtinfo1:
		base, mask = info.ConntrackMtinfoBase, uint16(info.StateMask)
	case *xt.ConntrackMtinfo2:
		base, mask = info.ConntrackMtinfoBase, info.StateMask
	case *xt.ConntrackMtinfo3:
		base, mask = info.ConntrackMtinfoBase, info.StateMask
	default:
		return 0, false
	}
	if base.MatchFlags&^xtStateAlias != xtState || base.InvertFlags != 0 {
		return 0, false
	}
	if mask&xtInvalid != 0 {
		states |= expr.CtStateBitINVALID
	}
	if mask&xtUntracked != 0 {
		states |= expr.CtStateBitUNTRACKED
	}
	return states, true
}

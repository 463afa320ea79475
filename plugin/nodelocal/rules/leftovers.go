//go:build linux

package rules

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/google/nftables/xt"
)

// nodeLocal begins the comments of NodeLocal DNSCache's rules, which it leaves when
// it is killed.
const nodeLocal = "NodeLocal DNS Cache: "

// Leftovers removes the rules that NodeLocal DNSCache left for these addresses:
// once our own are gone, they would capture what nobody serves. iptables-nft's are
// removed through netlink, the older kind's with iptables-legacy; hint says what to
// do where that is not there.
func Leftovers(addrs []netip.Addr) (removed int, hint string, err error) {
	n, err := leftInNFT(addrs)
	m, hint, e := leftInLegacy(addrs)
	return n + m, hint, errors.Join(err, e)
}

func leftInNFT(addrs []netip.Addr) (removed int, err error) {
	conn, err := nftables.New()
	if err != nil {
		return 0, err
	}
	chains, err := conn.ListChains()
	if err != nil {
		return 0, nil // no nftables: nothing is in it
	}
	for _, c := range chains {
		if c.Table.Name != "raw" && c.Table.Name != "filter" || c.Table.Family != nftables.TableFamilyIPv4 && c.Table.Family != nftables.TableFamilyIPv6 {
			continue
		}
		rules, err := conn.GetRules(c.Table, c)
		if err != nil {
			return removed, err
		}
		for _, r := range rules {
			if commentOf(r) && mentions(r, addrs) {
				if err := conn.DelRule(r); err != nil {
					return removed, err
				}
				removed++
			}
		}
	}
	if removed == 0 {
		return 0, nil
	}
	return removed, said(conn.Flush())
}

// commentOf says whether a rule says that it is NodeLocal's.
func commentOf(r *nftables.Rule) bool {
	if s, ok := userdata.GetString(r.UserData, userdata.TypeComment); ok && strings.HasPrefix(s, nodeLocal) {
		return true
	}
	return slices.ContainsFunc(r.Exprs, func(e expr.Any) bool {
		m, ok := e.(*expr.Match)
		if !ok || m.Name != "comment" {
			return false
		}
		c, ok := m.Info.(*xt.Comment)
		return ok && strings.HasPrefix(string(*c), nodeLocal)
	})
}

func mentions(r *nftables.Rule, addrs []netip.Addr) bool {
	return slices.ContainsFunc(r.Exprs, func(e expr.Any) bool {
		c, ok := e.(*expr.Cmp)
		return ok && slices.ContainsFunc(addrs, func(a netip.Addr) bool { return bytes.Equal(c.Data, a.AsSlice()) })
	})
}

func leftInLegacy(addrs []netip.Addr) (removed int, hint string, err error) {
	for _, v6 := range []bool{false, true} {
		names, command := "/proc/net/ip_tables_names", "iptables-legacy"
		if v6 {
			names, command = "/proc/net/ip6_tables_names", "ip6tables-legacy"
		}
		tables, err := os.ReadFile(names)
		if err != nil {
			continue // the kernel has none of them
		}
		for table := range strings.FieldsSeq(string(tables)) {
			if table != "raw" && table != "filter" {
				continue
			}
			if _, err := exec.LookPath(command); err != nil {
				hint = fmt.Sprintf("the kernel has rules of %s, which is not here: if NodeLocal DNSCache left some, remove them on the node (%s-save | grep '%s')", command, command, strings.TrimSpace(nodeLocal))
				continue
			}
			n, err := (family{v6, command}).removeLeft(table, addrs)
			if err != nil {
				return removed, hint, err
			}
			removed += n
		}
	}
	return removed, hint, nil
}

func (f family) removeLeft(table string, addrs []netip.Addr) (removed int, err error) {
	out, err := f.table("-t", table, "-S")
	if err != nil {
		return 0, err
	}
	var in strings.Builder
	for line := range strings.Lines(out) {
		rest, ok := strings.CutPrefix(line, "-A ")
		if !ok || !strings.Contains(line, nodeLocal) {
			continue
		}
		for _, a := range addrs {
			if strings.Contains(line, " "+netip.PrefixFrom(a, a.BitLen()).String()+" ") {
				in.WriteString("-D " + rest)
				removed++
			}
		}
	}
	if removed == 0 {
		return 0, nil
	}
	return removed, f.restore("*" + table + "\n" + in.String() + "COMMIT\n")
}

//go:build linux

package rules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// commandWithin is how long a run of iptables may take, with its wait for the lock.
const commandWithin = 10 * time.Second

// family is iptables for one IP family: iptables or ip6tables, of one of its kinds.
type family struct {
	ipv6    bool
	command string
}

// ipt has the rules in chains of its own, in the tables raw and filter. They are
// the same for all generations: chains of one name can be there once.
type ipt struct {
	o       Options
	applied Set
	wrote   bool
}

func openIPT(o Options) (Backend, error) {
	for _, v6 := range []bool{false, true} {
		if v6 && !o.IPv6 || !v6 && !o.IPv4 {
			continue
		}
		f, err := findIPT(v6)
		if err != nil {
			return nil, err
		}
		o.families = append(o.families, f)
	}
	return &ipt{o: o}, nil
}

// findIPT looks for a program that works, by a real change: a chain made and
// removed. Of the two kinds, the older one works where the kernel has no nf_tables.
func findIPT(v6 bool) (family, error) {
	names := []string{"iptables", "iptables-legacy", "iptables-nft"}
	if v6 {
		names = []string{"ip6tables", "ip6tables-legacy", "ip6tables-nft"}
	}
	var tried []string
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			continue
		}
		f := family{v6, name}
		const chain = "FIREBREAK-TRY"
		err := f.restore("*raw\n:" + chain + " - [0:0]\n-X " + chain + "\nCOMMIT\n")
		if err == nil {
			return f, nil
		}
		tried = append(tried, err.Error())
	}
	if len(tried) == 0 {
		return family{}, fmt.Errorf("iptables: there is no program %s", names[0])
	}
	return family{}, fmt.Errorf("iptables: %s", strings.Join(tried, "; "))
}

// restore has a table changed whole, or not at all.
func (f family) restore(input string) error {
	_, err := f.run(f.command+"-restore", input, "--wait", "5", "--noflush")
	return err
}

// table runs the command on one table.
func (f family) table(args ...string) (string, error) {
	return f.run(f.command, "", append([]string{"--wait", "5"}, args...)...)
}

func (f family) run(name, input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		why := strings.TrimSpace(stderr.String())
		if strings.Contains(why, "Permission denied") || strings.Contains(why, "not permitted") {
			why += ": give the process the capability NET_ADMIN (and NET_RAW, which iptables needs)"
		}
		return "", fmt.Errorf("%s: %w: %s", name, err, why)
	}
	return stdout.String(), nil
}

// Name implements Backend.
func (t *ipt) Name() string { return IPTables }

// chain is the name of our chains: at most 28 bytes, with the longest link's name.
func (t *ipt) chain() string { return "FIREBREAK-" + t.o.Link }

// Where implements Backend.
func (t *ipt) Where() string { return "chains " + t.chain() + " of raw and filter" }

// Shared implements Backend.
func (t *ipt) Shared() bool { return true }

// jumps are from where our chains are gone to, by table.
var jumps = []struct {
	table  string
	chains []string
}{
	{"raw", []string{"PREROUTING", "OUTPUT"}},
	{"filter", []string{"INPUT", "OUTPUT"}},
}

// Apply implements Backend.
func (t *ipt) Apply(s Set) error {
	for _, f := range t.o.families {
		for _, j := range jumps {
			// Chain and jumps are one change. There may be a jump too many, from somebody
			// who put back what was there.
			jumps, err := t.jumps(f, j.table, j.chains)
			if err != nil {
				return err
			}
			var in strings.Builder
			fmt.Fprintf(&in, "*%s\n:%s - [0:0]\n", j.table, t.chain())
			for _, line := range t.lines(f, j.table, s) {
				fmt.Fprintf(&in, "-A %s %s\n", t.chain(), line)
			}
			in.WriteString(jumps)
			in.WriteString("COMMIT\n")
			if err := f.restore(in.String()); err != nil {
				return fmt.Errorf("writing chain %s of %s: %w", t.chain(), j.table, err)
			}
		}
	}
	t.applied, t.wrote = s, true
	return nil
}

func (t *ipt) jump() string { return "-j " + t.chain() }

// jumps are the changes after which each of the chains goes to ours once.
func (t *ipt) jumps(f family, table string, chains []string) (changes string, err error) {
	out, err := f.table("-t", table, "-S")
	if err != nil {
		return "", err
	}
	for _, c := range chains {
		n := t.count(out, c)
		if n == 0 {
			changes += "-I " + c + " 1 " + t.jump() + "\n"
		}
		for ; n > 1; n-- {
			changes += "-D " + c + " " + t.jump() + "\n"
		}
	}
	return changes, nil
}

// count is how often a chain goes to ours, in what -S prints.
func (t *ipt) count(out, chain string) (n int) {
	for line := range strings.Lines(out) {
		if strings.TrimSpace(line) == "-A "+chain+" "+t.jump() {
			n++
		}
	}
	return n
}

// lines are the rules of our chain in a table, as iptables prints them. In raw
// they keep packets out of connection tracking; in filter they accept those, ahead of
// what other rules make of untracked packets.
func (t *ipt) lines(f family, table string, s Set) (lines []string) {
	target := "CT --notrack"
	if table == "filter" {
		target = "ACCEPT"
	}
	add := func(addrs []netip.Addr, itself bool) {
		for _, a := range addrs {
			if a.Is6() != f.ipv6 {
				continue
			}
			host := netip.PrefixFrom(a, a.BitLen()).String()
			for _, p := range []string{"udp", "tcp"} {
				to, from := "-d "+host, "-s "+host
				if itself {
					to, from = "-s "+host+" -d "+host, "-s "+host+" -d "+host
				}
				lines = append(lines,
					fmt.Sprintf("%s -p %s -m %s --dport %d -j %s", to, p, p, s.Port, target),
					fmt.Sprintf("%s -p %s -m %s --sport %d -j %s", from, p, p, s.Port, target))
			}
		}
	}
	add(s.Probe, true)
	add(s.Capture, false)
	return lines
}

// Intact implements Backend.
func (t *ipt) Intact() (bool, error) {
	if !t.wrote {
		return false, nil
	}
	for _, f := range t.o.families {
		for _, j := range jumps {
			out, err := f.table("-t", j.table, "-S")
			if err != nil {
				return false, err
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			var ours []string
			for _, l := range lines {
				if rest, ok := strings.CutPrefix(l, "-A "+t.chain()+" "); ok {
					ours = append(ours, rest)
				}
			}
			if !slices.Equal(ours, t.lines(f, j.table, t.applied)) {
				return false, nil
			}
			for _, c := range j.chains {
				if t.count(out, c) != 1 {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

// Sweep implements Backend: there is one set of chains, which Apply writes whole.
func (t *ipt) Sweep([]string) ([]string, error) { return nil, nil }

// Flows implements Backend: our chain in filter lets all of it through.
func (t *ipt) Flows() (map[netip.Addr]Flow, error) { return nil, nil }

// Close implements Backend.
func (t *ipt) Close(keep bool) error {
	if keep || !t.wrote {
		return nil
	}
	var errs []error
	for _, f := range t.o.families {
		for _, j := range jumps {
			out, err := f.table("-t", j.table, "-S")
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if !strings.Contains(out, "-N "+t.chain()+"\n") {
				continue
			}
			var in strings.Builder
			fmt.Fprintf(&in, "*%s\n:%s - [0:0]\n", j.table, t.chain())
			for line := range strings.Lines(out) {
				line = strings.TrimSpace(line)
				for _, c := range j.chains {
					if line == "-A "+c+" "+t.jump() {
						fmt.Fprintf(&in, "-D %s %s\n", c, t.jump())
					}
				}
			}
			fmt.Fprintf(&in, "-X %s\nCOMMIT\n", t.chain())
			if err := f.restore(in.String()); err != nil {
				errs = append(errs, fmt.Errorf("removing chain %s of %s: %w", t.chain(), j.table, err))
			}
		}
	}
	return errors.Join(errs...)
}

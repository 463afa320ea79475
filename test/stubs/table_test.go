//go:build linux

package stubs

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// The page that is made of what was measured.
var (
	pagePath    = filepath.Join("..", "..", "docs", "resolvers.md")
	picturePath = filepath.Join("..", "..", "docs", "resolvers.svg")
)

// table is a matrix as the page has it: clients with servers in resolv.conf, or
// those behind a Service.
func (m *matrix) table(service bool) string {
	var b strings.Builder
	if service {
		b.WriteString("| client | `options` | lookups: median, slowest | failed | queries per question | retries from the same port | retries to the same server |\n")
		b.WriteString("|---|---|---|---|---|---|---|\n")
	} else {
		b.WriteString("| client | `resolv.conf` | verdict | time to failover | lookups: median, slowest | failed | queries per question | afterwards |\n")
		b.WriteString("|---|---|---|---|---|---|---|---|\n")
	}
	for _, c := range m.cells {
		if c.service() != service || c.report == nil {
			continue
		}
		f := m.felt(c)
		took := short(f.median) + ", " + short(f.slow)
		queries := fmt.Sprintf("%.1f (before: %.1f)", f.queries, f.queriesBefore)
		if service {
			r := retriesOf(c)
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", c.Name, orDash(code(c.Options)), took, percent(f.fails, f.lookups), queries,
				percent(r.samePort, r.all), percent(r.sameServer, r.all))
			continue
		}
		failover := "–"
		switch {
		case f.failover >= 0:
			failover = short(f.failover)
		case f.verdict == run.Followed:
			failover = "none: asks several"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s | %s | %s | %s | %s |\n", c.Name, c.row.asks(), f.verdict, failover, took,
			percent(f.fails, f.lookups), queries, orDash(string(f.returned)))
	}
	return b.String()
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// asks is the row's resolv.conf in a few words.
func (r row) asks() string {
	s := fmt.Sprintf("%d servers", r.servers)
	if r.servers == 1 {
		s = "1 server"
	}
	if r.ipv6 {
		s += " by IPv6"
	}
	if r.forwarder() {
		s += ", behind it glibc"
	}
	if r.Options != "" {
		s += ", " + code(r.Options)
	}
	return s
}

// short is a time as exact as it can be reproduced.
func short(d time.Duration) string {
	if d < 100*time.Millisecond {
		return "< 0.1 s"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func percent(n, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(of))
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// mark is what stands around a table of the page.
func mark(mode protocol.DrillMode, service bool) (begin, end string) {
	name := string(mode)
	if service {
		name += "-service"
	}
	return "<!-- measured: " + name + " -->\n", "<!-- end of " + name + " -->"
}

// writePage puts the tables into the page, and the picture beside it.
func writePage(matrices []*matrix) error {
	page, err := os.ReadFile(pagePath)
	if err != nil {
		return err
	}
	for _, m := range matrices {
		for _, service := range []bool{false, true} {
			begin, end := mark(m.mode, service)
			before, rest, ok := bytes.Cut(page, []byte(begin))
			_, after, closed := bytes.Cut(rest, []byte(end))
			if !ok || !closed {
				return fmt.Errorf("%s has no %q followed by %q: put them where the table is to stand", pagePath, strings.TrimSpace(begin), end)
			}
			page = bytes.Join([][]byte{before, []byte(begin), []byte("\n" + m.table(service) + "\n"), []byte(end), after}, nil)
		}
	}
	if err := os.WriteFile(pagePath, page, 0o644); err != nil {
		return err
	}
	return os.WriteFile(picturePath, picture(matrices), 0o644)
}

// comparePage holds what the page says to what was measured: the verdicts all,
// and times where they do not hang on chance.
func comparePage(t *testing.T, m *matrix) {
	page, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range []bool{false, true} {
		begin, end := mark(m.mode, service)
		_, rest, ok := strings.Cut(string(page), begin)
		text, _, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Errorf("%s has no table between %q and %q", pagePath, strings.TrimSpace(begin), end)
			continue
		}
		rows := map[string][]string{}
		for line := range strings.Lines(text) {
			if cells := strings.Split(line, "|"); len(cells) > 7 {
				rows[strings.TrimSpace(cells[1])] = cells
			}
		}
		for _, c := range m.cells {
			if c.service() == service && c.report != nil {
				m.compareRow(t, c, rows[c.Name])
			}
		}
	}
}

func (m *matrix) compareRow(t *testing.T, c *cell, cells []string) {
	const again = "measure again: go test ./test/stubs -run TestResolvers -update"
	if cells == nil {
		t.Errorf("%s has no row of %s in drill %s; %s", pagePath, c.Name, m.mode, again)
		return
	}
	if c.service() {
		return // chance decides there
	}
	f := m.felt(c)
	if want := "`" + string(f.verdict) + "`"; strings.TrimSpace(cells[3]) != want {
		t.Errorf("%s: %s is %s in drill %s on the page, and %s now; %s", pagePath, c.Name, strings.TrimSpace(cells[3]), m.mode, want, again)
	}
	if c.byChance() || f.failover < 0 {
		return
	}
	said := parseShort(strings.TrimSpace(cells[4]))
	if off := math.Abs(said - f.failover.Seconds()); !(off <= max(0.5, 0.1*said)) {
		t.Errorf("%s: %s fails over after %s in drill %s on the page, and after %s now; %s", pagePath, c.Name, strings.TrimSpace(cells[4]), m.mode, short(f.failover), again)
	}
}

// byChance says whether a client's figures differ from drill to drill: a random
// server, or a forwarder that tries all servers now and then.
func (r row) byChance() bool {
	return r.service() || r.forwarder() || strings.Contains(r.Options, "rotate")
}

func parseShort(s string) float64 {
	v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimPrefix(s, "< "), " s"), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

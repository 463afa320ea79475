package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// TestSame reads back what people see, in the table and on the page, and holds
// every field of it to the JSON.
func TestSame(t *testing.T) {
	for name, r := range map[string]*run.Report{"failed": failed(), "passed": passed(), "refused": refused(), "running": running(), "upstream": upstream()} {
		t.Run(name, func(t *testing.T) { same(t, r) })
	}
	t.Run("generated", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { same(t, reports().Draw(t, "report")) })
	})
}

type fataler interface {
	Fatalf(string, ...any)
	Helper()
}

func same(t fataler, r *run.Report) {
	t.Helper()
	out := map[Format]string{}
	for _, f := range []Format{FormatJSON, FormatYAML, FormatWide, FormatHTML} {
		var b bytes.Buffer
		if err := Write(&b, r, f, Style{}); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		out[f] = b.String()
	}
	var j map[string]any
	if err := json.Unmarshal([]byte(out[FormatJSON]), &j); err != nil {
		t.Fatalf("json: %v", err)
	}
	seen := map[string]shown{"table": readText(out[FormatWide]), "page": readPage(t, out[FormatHTML])}
	for where, s := range seen {
		check := func(field, text string, value any) {
			if err := says(text, value); err != nil {
				t.Fatalf("%s: %s: %v\n%s", where, field, err, out[FormatWide])
			}
		}
		if want := string(r.Outcome); want != "" && !strings.EqualFold(s.outcome, want) {
			t.Fatalf("%s: outcome %q, not %q", where, s.outcome, want)
		}
		if why := fmt.Sprint(j["reason"]); why != "" && !strings.Contains(s.all, why) {
			t.Fatalf("%s: no reason %s", where, why)
		}
		if why, _ := j["unsaved"].(string); !strings.Contains(squeeze(s.all), squeeze(why)) || strings.Contains(squeeze(s.all), "diskyet") != (why != "") {
			t.Fatalf("%s: unsaved %q", where, why)
		}
		labels := map[string]string{
			"Coverage": "coverage", "Lost": "lost", "Drilled": "drilled", "Noticed after": "timeToNoticeSeconds", "Moved after": "timeToMoveSeconds",
			"Balancer switch": "balancerSwitchSeconds", "Held": "heldSeconds", "Back after": "backSeconds", "Fleet": "fleet", "Server": "server",
			"Out from": "started", "Out until": "ended", "Clocks agree within": "clockErrorMs",
		}
		if r.Spec.OfUpstream() {
			for _, label := range []string{"Coverage", "Lost", "Drilled", "Balancer switch"} {
				delete(labels, label)
			}
			labels["Taken"] = "drilled"
			d, _ := j["during"].(map[string]any)
			check("during.errorShare", s.pairs["Errors"], d["errorShare"])
			check("during.p99Ms", s.pairs["P99"], d["p99Ms"])
			check("spec.upstream", s.pairs["Upstream"], j["spec"].(map[string]any)["upstream"])
		}
		for label, field := range labels {
			text, ok := s.pairs[label]
			if !ok {
				t.Fatalf("%s: %s is not shown", where, label)
			}
			check(field, text, j[field])
		}
		for verdict, n := range j["verdicts"].(map[string]any) {
			shown := s.verdicts[verdict]
			if shown == "" {
				shown = "0"
			}
			check("verdicts."+verdict, shown, n)
		}
		rows(t, s, "clients", j["clients"], []string{"address"}, check)
		rows(t, s, "upstreams", j["upstreams"], []string{"address", "zone"}, check)
		rows(t, s, "monitors", j["monitors"], []string{"name"}, check)
		rows(t, s, "unheard", j["unheard"], []string{"server"}, check)
		rows(t, s, "timeline", j["timeline"], []string{"at", "what"}, check)
		rows(t, s, "survivors", traffic(j), []string{"name", "span"}, check)
		for _, f := range items(j["findings"]) {
			for _, field := range []string{"reason", "message"} {
				if !strings.Contains(squeeze(s.all), squeeze(fmt.Sprint(f[field]))) {
					t.Fatalf("%s: finding's %s %q is not shown", where, field, f[field])
				}
			}
		}
		versions, _ := j["versions"].(map[string]any)
		for name, v := range versions {
			check("versions."+name, s.pairs[name], v)
		}
		for _, short := range r.Shortened {
			if !strings.Contains(squeeze(s.all), squeeze(short)) {
				t.Fatalf("%s: %q is not shown", where, short)
			}
		}
	}
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

// rows finds each item of the JSON by its keys in the table shown, and compares all cells.
func rows(t fataler, s shown, table string, list any, keys []string, check func(field, text string, value any)) {
	want := items(list)
	got := s.tables[table]
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows shown, %d in the JSON", table, len(got), len(want))
	}
	for _, item := range want {
		found := false
		for _, row := range got {
			match := true
			for _, k := range keys {
				match = match && says(row[k], item[k]) == nil
			}
			if !match {
				continue
			}
			found = true
			for field, text := range row {
				if value, ok := item[field]; ok {
					check(table+"."+field, text, value)
				} else if field != "after" && text != unknown {
					check(table+"."+field, text, nil)
				}
			}
			break
		}
		if !found {
			t.Fatalf("%s: no row for %v in %v", table, item, got)
		}
	}
}

func items(list any) []map[string]any {
	var out []map[string]any
	all, _ := list.([]any)
	for _, x := range all {
		out = append(out, x.(map[string]any))
	}
	return out
}

// traffic are the rows of the survivors' table as the JSON has them.
func traffic(j map[string]any) any {
	var out []any
	add := func(name, span string, x any) {
		if m, ok := x.(map[string]any); ok {
			row := map[string]any{"name": name, "span": span}
			for k, v := range m {
				row[k] = v
			}
			out = append(out, row)
		}
	}
	if j["spec"].(map[string]any)["stage"] != string(run.StageUpstream) {
		add("all survivors", "before", j["baseline"])
		add("all survivors", "during", j["during"])
	}
	for _, s := range items(j["survivors"]) {
		add(s["name"].(string), "before", s["baseline"])
		add(s["name"].(string), "during", s["during"])
	}
	return out
}

var number = regexp.MustCompile(`^(about |<)?(-?[\d,]+(?:\.\d+)?) ?(%|s|ms)?$`)

// says compares what is shown with a value of the JSON. A number may be
// rounded, but by no more than half of its last digit (a share: cut, by less
// than its last digit).
func says(text string, value any) error {
	wrong := fmt.Errorf("shows %q, not %v", text, value)
	switch value := value.(type) {
	case nil:
		if text != unknown && text != "not at all" {
			return wrong
		}
	case bool:
		return wrong
	case string:
		if at, err := time.Parse(time.RFC3339Nano, value); err == nil {
			if text != at.UTC().Format("2006-01-02 15:04:05 MST") {
				return wrong
			}
			return nil
		}
		if value == "" && (text == unknown || text == "waiting") {
			return nil
		}
		if text != value {
			return wrong
		}
	case float64:
		m := number.FindStringSubmatch(text)
		if m == nil {
			return wrong
		}
		digits := strings.ReplaceAll(m[2], ",", "")
		got, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			return wrong
		}
		last := 1.0
		if i := strings.Index(digits, "."); i >= 0 {
			last = math.Pow(10, -float64(len(digits)-i-1))
		}
		off := math.Abs(got - value)
		switch {
		case m[1] == "<":
			if m[3] == "%" {
				value *= 100
			}
			if value < 0 || value == 0 && m[3] == "%" || value >= got {
				return wrong
			}
			return nil
		case m[3] == "%":
			if (got == 100) != (value >= 1) || (got == 0) != (value <= 0) {
				return wrong
			}
			// Zeros at the end are left out, so the last digit may be a tenth.
			if got-value*100 > 1e-6 || value*100-got >= 0.1+1e-6 {
				return wrong
			}
			return nil
		case off > last/2+1e-9:
			return wrong
		}
	default:
		return fmt.Errorf("%T is not compared", value)
	}
	return nil
}

// shown is what people see, read back.
type shown struct {
	all      string
	outcome  string
	pairs    map[string]string
	verdicts map[string]string
	tables   map[string][]map[string]string
}

func newShown() shown {
	return shown{pairs: map[string]string{}, verdicts: map[string]string{}, tables: map[string][]map[string]string{}}
}

// sections of the wide table, by heading; clients' begins with that word.
var sections = map[string]struct {
	table   string
	columns []Column
}{
	"Clients":                                 {"clients", clientTable(&run.Report{}).Columns},
	"The other servers, before and during":    {"survivors", survivorTable(&run.Report{}).Columns},
	"What its clients had, before and during": {"survivors", survivorTable(&run.Report{}).Columns},
	"Upstreams, before and during":            {"upstreams", upstreamTable(&run.Report{}).Columns},
	"Monitors":                                {"monitors", monitorTable(&run.Report{}).Columns},
	"Could not tell":                          {"unheard", unheardTable(&run.Report{}, time.UTC).Columns},
	"Timeline":                                {"timeline", timelineTable(&run.Report{}, time.UTC).Columns},
}

var gap = regexp.MustCompile(`  +`)

func readText(text string) shown {
	s := newShown()
	s.all = text
	s.outcome = strings.Fields(text)[0]
	section := ""
	for _, line := range strings.Split(text, "\n") {
		if line != "" && line[0] != ' ' {
			section, _, _ = strings.Cut(line, ": ")
			if rest, ok := strings.CutPrefix(line, "Clients: "); ok {
				for _, part := range strings.Split(rest, ", ") {
					if n, verdict, ok := strings.Cut(part, " "); ok {
						s.verdicts[verdict] = n
					}
				}
			}
			continue
		}
		cells := gap.Split(strings.TrimSpace(line), -1)
		about, ok := sections[section]
		switch {
		case !ok && len(cells) >= 2:
			s.pairs[cells[0]] = cells[1]
		case ok && len(cells) == len(about.columns) && cells[0] != about.columns[0].Head:
			row := map[string]string{}
			for i, c := range about.columns {
				row[c.Field] = cells[i]
			}
			s.tables[about.table] = append(s.tables[about.table], row)
		}
	}
	return s
}

func readPage(t fataler, page string) shown {
	s := newShown()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatalf("page: %v", err)
	}
	var walk func(n *html.Node, table string)
	label := ""
	walk = func(n *html.Node, table string) {
		field := attr(n, "data-field")
		switch {
		case n.Data == "style" || n.Data == "svg":
			return
		case n.Data == "table":
			table = attr(n, "data-table")
		case n.Data == "tr":
			s.tables[table] = append(s.tables[table], map[string]string{})
		case n.Data == "dt" || n.Data == "p" && attr(n, "class") == "label":
			label = words(n)
		}
		if field != "" {
			text := words(n)
			verdict, isVerdict := strings.CutPrefix(field, "verdicts.")
			switch {
			case field == "outcome":
				s.outcome = text
			case isVerdict:
				s.verdicts[verdict] = text
			case n.Data == "td":
				rows := s.tables[table]
				rows[len(rows)-1][field] = text
			case n.Data == "dd" || strings.HasPrefix(attr(n, "class"), "value"):
				s.pairs[label] = text
			}
		}
		if n.Type == html.TextNode {
			s.all += n.Data + " "
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, table)
		}
	}
	walk(doc, "")
	for table, rows := range s.tables { // the heads
		s.tables[table] = rows[1:]
	}
	return s
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func words(n *html.Node) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		b.WriteString(words(c))
	}
	return strings.TrimSpace(b.String())
}

// reports are any that could be.
func reports() *rapid.Generator[*run.Report] {
	return rapid.Custom(func(t *rapid.T) *run.Report {
		r := &run.Report{Schema: run.SchemaVersion, ID: "20261130-031430-ns1-k3v9", Fleet: "home", Server: "ns1", Spec: fixtureSpec()}
		r.Outcome = rapid.SampledFrom([]run.Outcome{run.Passed, run.Failed, run.Stopped}).Draw(t, "outcome")
		r.Phase, r.Reason, r.Message = run.Done, run.ClientsStuck, "in words"
		some := func(name string) *float64 {
			if rapid.Bool().Draw(t, name+"?") {
				return ptr(rapid.Float64Range(0, 400).Draw(t, name))
			}
			return nil
		}
		number := func(name string) int { return rapid.IntRange(0, 2_000_000).Draw(t, name) }
		perhaps := func(name string) *int {
			if rapid.Bool().Draw(t, name+"?") {
				return ptr(number(name))
			}
			return nil
		}
		r.Unsaved = rapid.SampledFrom([]string{"", "the state folder cannot be written: no space left on device"}).Draw(t, "unsaved")
		r.Lost, r.Drilled, r.LostSampled = perhaps("lost"), number("drilled"), rapid.Bool().Draw(t, "sampled")
		if rapid.Bool().Draw(t, "covered") {
			r.Coverage = ptr(rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 1, 0.9999, 0.00001, 1.0 / 3})).Draw(t, "coverage"))
		}
		r.TimeToNoticeSeconds, r.TimeToMoveSeconds, r.BalancerSwitchSeconds = some("notice"), some("move"), some("switch")
		r.HeldSeconds, r.BackSeconds = some("held"), some("back")
		r.Started = ptr(after(0))
		if rapid.Bool().Draw(t, "over") {
			r.Ended = ptr(after(float64(rapid.IntRange(1, 300).Draw(t, "for"))))
		}
		flow := func() run.Traffic {
			return run.Traffic{Seconds: rapid.Float64Range(0, 300).Draw(t, "span"), Queries: uint64(number("q")), Answers: uint64(number("a")), Errors: uint64(number("e")),
				ErrorShare: rapid.Float64Range(0, 1).Draw(t, "share"), DenialShare: rapid.Ptr(rapid.Float64Range(0, 1), true).Draw(t, "denials"),
				RetriesPerQuestion: rapid.Ptr(rapid.Float64Range(1, 9), true).Draw(t, "rpq"),
				P50Ms:              rapid.Ptr(rapid.Float64Range(0, 10000), true).Draw(t, "p50"), P99Ms: rapid.Ptr(rapid.Float64Range(0, 10000), true).Draw(t, "p99")}
		}
		if rapid.Bool().Draw(t, "baseline") {
			r.Baseline, r.During = ptr(flow()), ptr(flow())
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "survivors") {
			r.Survivors = append(r.Survivors, run.ServerReport{Name: fmt.Sprintf("ns%d", i+2), Baseline: flow(), During: flow()})
		}
		for i := range rapid.IntRange(0, 12).Draw(t, "clients") {
			c := run.ClientReport{Address: fmt.Sprintf("192.0.2.%d", i+10), Drilled: number("cd"), Lost: perhaps("cl"), LostSampled: rapid.Bool().Draw(t, "cs"),
				Verdict:  rapid.SampledFrom(verdictOrder).Draw(t, "verdict"),
				Returned: rapid.SampledFrom([]run.Return{run.Returned, run.Sticky, run.ReturnUnknown, run.ReturnPending}).Draw(t, "returned")}
			c.Name = rapid.SampledFrom([]string{"", "laptop", "node/worker-1", "default/web-0", "a&b <c>"}).Draw(t, "name")
			if c.Verdict == run.Followed {
				c.FailoverSeconds, c.AnsweredBy = some("failover"), "ns2"
			}
			switch c.Verdict {
			case run.Followed:
				r.Verdicts.Followed++
			case run.Stuck:
				r.Verdicts.Stuck++
			case run.Quiet:
				r.Verdicts.Quiet++
			case run.Elsewhere:
				r.Verdicts.Elsewhere++
			case run.Unknown:
				r.Verdicts.Unknown++
			}
			r.Clients = append(r.Clients, c)
		}
		r.ClientsTotal = len(r.Clients)
		for i := range rapid.IntRange(0, 2).Draw(t, "monitors") {
			r.Monitors = append(r.Monitors, run.MonitorReport{Name: fmt.Sprintf("www%d.example.com.", i), Lookups: number("ml"), Lost: number("mx"), Row: number("mr")})
		}
		if rapid.Bool().Draw(t, "unheard") {
			r.Unheard = []run.Unheard{{Server: "ns8", Why: "no route"}, {Server: "ns9", Why: "late", From: ptr(after(3))}}
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "events") {
			r.Timeline = append(r.Timeline, run.Event{At: after(float64(i)), What: fmt.Sprintf("event %d", i)})
		}
		if rapid.Bool().Draw(t, "found") {
			r.Findings = []run.Finding{{Reason: run.SlowToMove, Message: "130 s to move, 120 s were expected"}}
		}
		r.Versions = map[string]string{"controller": "1.2.3", "ns2": "1.2.2"}
		r.Shortened = rapid.SampledFrom([][]string{nil, {"reading: 3 s instead of 30 s"}}).Draw(t, "shortened")
		r.ClockErrorMs = int64(number("clock"))
		r.Spec.Mode = rapid.SampledFrom([]protocol.DrillMode{protocol.ModeDrop, protocol.ModeRefused}).Draw(t, "mode")
		return r
	})
}

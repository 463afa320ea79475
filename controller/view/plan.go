package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// planView is a plan in words.
type planView struct {
	Outcome  Value
	Server   string
	Fleet    string
	What     string
	Checks   Table
	Refusals []finding
	Targets  Table
	// TargetsHead is the heading of that table.
	TargetsHead string
	Missing     int
	Warnings    []run.Warning
	Steps       []string
	Shortened   []string
}

func viewPlan(p *run.Plan, now time.Time) planView {
	v := planView{
		Outcome: toned("allowed", Good), Server: clean(p.Server), Fleet: clean(p.Fleet), What: clean(planWhat(p)),
		Targets: targetTable(p.Targets, now), Missing: max(p.TargetsTotal-len(p.Targets), 0),
		Warnings: p.Warnings, Steps: cleaned(p.Steps), Shortened: cleaned(p.Shortened),
		Checks: checkTable(p.Checks), TargetsHead: "Clients that would be drilled",
	}
	if p.Spec.OfUpstream() {
		v.TargetsHead = "Clients that are not to notice"
	}
	if !p.Allowed {
		v.Outcome = toned("refused", Bad)
	}
	for _, c := range p.Checks {
		if !c.Passed && !c.Ignored {
			v.Refusals = append(v.Refusals, newFinding(c.Reason, c.Message, p.Spec))
		}
	}
	return v
}

// checkTable is what every guard answered.
func checkTable(checks []run.Check) Table {
	t := Table{Columns: []Column{{Field: "passed", Head: "CHECK"}, {Field: "reason", Head: "GUARDS AGAINST"}, {Field: "message", Head: "WHAT IT FOUND"}}}
	for _, c := range checks {
		answer := toned("ok", Good)
		switch {
		case c.Ignored:
			answer = toned("ignored", Warn)
		case !c.Passed:
			answer = toned("refused", Bad)
		}
		t.Rows = append(t.Rows, []Value{answer, plain(string(c.Reason)), plain(c.Message)})
	}
	return t
}

// planWhat says in a sentence what the drill would do.
func planWhat(p *run.Plan) string {
	if p.Spec.OfUpstream() {
		return planUpstream(p)
	}
	return fmt.Sprintf("%s would %s the queries of %s for %d s: %s seen in the last hour.", p.Server,
		pick(p.Spec.Mode == protocol.ModeRefused, "refuse", "drop"),
		whom(p.Spec.Everyone, p.Spec.Clients, p.Spec.Exclude), p.Spec.Seconds, many(max(p.TargetsTotal, len(p.Targets)), "client"))
}

func targetTable(targets []run.PlanClient, now time.Time) Table {
	t := Table{Columns: []Column{
		{Field: "address", Head: "CLIENT"}, {Field: "name", Head: "NAME"}, {Field: "queries", Head: "QUERIES", Right: true},
		{Field: "lastSeen", Head: "LAST SEEN", Right: true}, {Field: "singleHomed", Head: "OTHER SERVERS"},
	}}
	for _, c := range targets {
		others := plain("yes")
		if c.SingleHomed {
			others = toned("none in 7 days", Warn)
		}
		t.Rows = append(t.Rows, []Value{plain(c.Address), plain(orUnknown(c.Name)), plain(count(c.Queries)), plain(ago(c.LastSeen, now)), others})
	}
	return t
}

func planText(p *paper, v planView) {
	p.line("%s  drill of %s (fleet %s)", p.badge(v.Outcome), clean(v.Server), clean(v.Fleet))
	p.line("%s", wrap(clean(v.What), textWidth, ""))
	if len(v.Refusals) > 0 {
		p.head("Why it may not start")
		findings(p, v.Refusals)
	}
	if len(v.Warnings) > 0 {
		p.head("Know before you start")
		warnings(p, v.Warnings)
	}
	p.head(v.TargetsHead)
	if len(v.Targets.Rows) == 0 {
		p.line("  none seen in the last hour")
	} else {
		p.table(v.Targets, "  ")
	}
	if v.Missing > 0 {
		p.line("  … and %s more", count(v.Missing))
	}
	if len(v.Steps) > 0 {
		p.head("What would happen")
		for i, s := range v.Steps {
			p.line("  %d. %s", i+1, wrap(clean(s), textWidth-5, "     "))
		}
	}
	if len(v.Checks.Rows) > 0 {
		p.head("Checks")
		p.table(v.Checks, "  ")
	}
	if len(v.Shortened) > 0 {
		p.head("Shortened or ignored")
		for _, s := range v.Shortened {
			p.line("  %s", clean(s))
		}
	}
}

// findings with what to do about each.
func findings(p *paper, all []finding) {
	for _, f := range all {
		p.line("  %s", wrap(p.paint(toned(f.Reason, Bad))+": "+clean(f.Message), textWidth, "    "))
		if f.Next != "" {
			p.line("    %s", wrap("Do: "+f.Next, textWidth-4, "        "))
		}
	}
}

// warnings of a plan, with those of its clients whom they are about.
func warnings(p *paper, all []run.Warning) {
	for _, w := range all {
		text := p.paint(toned(w.Kind, Warn)) + ": " + clean(w.Message)
		if len(w.Clients) > 0 {
			text += " (" + clean(list(w.Clients, 5)) + ")"
		}
		p.line("  %s", wrap(text, textWidth, "    "))
	}
}

// summaryClients is how many clients a PlanSummary names.
const summaryClients = 10

// PlanSummary is a plan in short: what would be done, to whom, and what to know
// before. It is what somebody is asked to confirm.
func PlanSummary(p *run.Plan, s Style) string {
	out := &paper{color: s.Color}
	out.line("%s", wrap(clean(planWhat(p)), textWidth, ""))
	if len(p.Targets) > 0 {
		// Those without another server first: they are whom it may hurt.
		targets := slices.Clone(p.Targets)
		slices.SortStableFunc(targets, func(a, b run.PlanClient) int {
			return cmp.Compare(pick(a.SingleHomed, "0", "1"), pick(b.SingleHomed, "0", "1"))
		})
		out.table(targetTable(targets[:min(len(targets), summaryClients)], s.Now), "  ")
		if more := max(p.TargetsTotal, len(targets)) - summaryClients; more > 0 {
			out.line("  … and %s more: `firebreak drill plan` lists them all", count(more))
		}
	}
	warnings(out, p.Warnings)
	return out.String()
}

// Refused is a refusal for people: each reason with what to do.
func Refused(checks []run.Check, s Style) string {
	out := &paper{color: s.Color}
	var all []finding
	for _, c := range checks {
		if !c.Passed {
			all = append(all, newFinding(c.Reason, c.Message, run.Spec{}))
		}
	}
	findings(out, all)
	return out.String()
}

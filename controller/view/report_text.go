package view

// textWidth is where sentences are broken: tables are as wide as they are.
const textWidth = 96

// reportText is the report as a table for people. Wide adds the timeline, each
// survivor by itself, versions and what was asked for.
func reportText(p *paper, v reportView, wide bool) {
	p.line("%s  drill %s", p.badge(v.Outcome), clean(v.ID))
	p.line("%s", wrap(clean(v.What), textWidth, ""))
	if v.Why != "" {
		p.line("%s", wrap("Why: "+clean(v.Why), textWidth, "     "))
	}
	if v.Next != "" {
		p.line("%s", wrap("Do: "+v.Next, textWidth, "    "))
	}
	if v.Unsaved != "" {
		p.line("%s", wrap(p.paint(toned(v.Unsaved, Warn)), textWidth, ""))
	}
	p.WriteByte('\n')
	p.pairs(v.About)
	p.WriteByte('\n')
	p.pairs(v.Figures)

	if len(v.Findings) > 0 {
		p.head("Findings")
		findings(p, v.Findings)
	}

	if v.OfUpstream {
		if len(v.Upstreams.Rows) > 0 {
			p.head("Upstreams, before and during")
			p.table(v.Upstreams, "  ")
		}
	} else {
		p.head("Clients: " + v.Counted)
		if len(v.Clients.Rows) == 0 {
			p.line("  none")
		} else {
			p.table(v.Clients, "  ")
		}
	}
	if v.Missing > 0 {
		p.line("  … and %s more: -o json has them all", count(v.Missing))
	}
	for _, c := range v.Verdicts {
		if c.Next != "" {
			p.line("  %s", wrap(p.paint(toned(string(c.Verdict), c.Tone))+": "+c.Means+" "+c.Next, textWidth, "    "))
		}
	}

	if len(v.Survivor.Rows) > 0 {
		p.head(v.SurvivorHead)
		t := v.Survivor
		if !wide {
			t = t.narrow()
			t.Rows = t.Rows[:min(len(t.Rows), 2)]
		}
		p.table(t, "  ")
	}
	if len(v.Monitors.Rows) > 0 {
		p.head("Monitors")
		p.table(v.Monitors, "  ")
	}
	if len(v.Unheard.Rows) > 0 {
		p.head("Could not tell")
		p.table(v.Unheard, "  ")
	}
	if len(v.Shortened) > 0 {
		p.head("Shortened or ignored")
		for _, s := range v.Shortened {
			p.line("  %s", clean(s))
		}
	}
	if !wide {
		return
	}
	if len(v.Timeline.Rows) > 0 {
		p.head("Timeline")
		p.table(v.Timeline, "  ")
	}
	if len(v.Checks.Rows) > 0 {
		p.head("Checks")
		p.table(v.Checks, "  ")
	}
	p.head("Asked for")
	p.pairs(v.Spec)
	if len(v.Versions) > 0 {
		p.head("Versions")
		p.pairs(v.Versions)
	}
}

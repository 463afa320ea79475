package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

func serverTable(l *ServerList, now time.Time) Table {
	t := Table{Columns: []Column{
		{Field: "name", Head: "SERVER"}, {Field: "heard", Head: "HEARD"}, {Field: "ready", Head: "READY"},
		{Field: "dns", Head: "DNS"}, {Field: "lastAnswer", Head: "LAST ANSWER", Right: true}, {Field: "drill", Head: "DRILL"},
		{Field: "version", Head: "VERSION"},
		{Field: "offsetMs", Head: "CLOCK", Right: true, Wide: true}, {Field: "control", Head: "CONTROL", Wide: true},
		{Field: "lastProbe", Head: "LAST PROBE", Right: true, Wide: true}, {Field: "features", Head: "FEATURES", Wide: true},
		{Field: "upstreams", Head: "UPSTREAMS", Wide: true},
		{Field: "error", Head: "ERROR"},
	}}
	for _, s := range l.Servers {
		ready := toned("not known", Dim)
		if s.Ready != nil {
			ready = toned(yesNo(*s.Ready), Good)
			if !*s.Ready {
				ready.Tone = Bad
			}
		}
		heard := toned("yes", Good)
		if !s.Heard {
			heard = toned("no", Bad)
		}
		drill := toned(unknown, Dim)
		if s.Drill != nil && s.Drill.Ended == nil {
			drill = toned(s.Drill.ID, Warn)
		} else if s.Outage != nil && s.Outage.Ended == nil {
			drill = toned(s.Outage.ID, Warn)
		}
		last := func(at *time.Time) Value {
			if at == nil {
				return toned("never", Dim)
			}
			return plain(ago(*at, now))
		}
		t.Rows = append(t.Rows, []Value{
			plain(s.Name), heard, ready, plain(strings.Join(s.DNS, ",")), last(s.LastAnswer), drill, plain(orUnknown(s.Version)),
			plain(fmt.Sprintf("%+d ±%d ms", s.OffsetMs, s.OffsetErr)), plain(s.Control), last(s.LastProbe),
			plain(orUnknown(strings.Join(s.Features, ","))), upstreamsWord(s.Upstreams), toned(s.Error, Bad),
		})
	}
	return t
}

func drillTable(l *DrillList, in *time.Location) Table {
	t := Table{Columns: []Column{
		{Field: "id", Head: "DRILL"}, {Field: "server", Head: "SERVER"}, {Field: "outcome", Head: "OUTCOME"}, {Field: "reason", Head: "REASON"},
		{Field: "coverage", Head: "COVERAGE", Right: true}, {Field: "verdicts.followed", Head: "FOLLOWED", Right: true},
		{Field: "verdicts.stuck", Head: "STUCK", Right: true}, {Field: "verdicts.quiet", Head: "QUIET", Right: true, Wide: true},
		{Field: "verdicts.elsewhere", Head: "ELSEWHERE", Right: true, Wide: true}, {Field: "verdicts.unknown", Head: "UNKNOWN", Right: true, Wide: true},
		{Field: "lost", Head: "LOST", Right: true}, {Field: "upstream", Head: "UPSTREAM", Wide: true}, {Field: "mode", Head: "MODE", Wide: true}, {Field: "durationSeconds", Head: "FOR", Right: true, Wide: true},
		{Field: "by", Head: "BY"}, {Field: "requested", Head: "REQUESTED"},
	}}
	for _, d := range l.Drills {
		stuck := plain(count(d.Verdicts.Stuck))
		if d.Verdicts.Stuck > 0 {
			stuck.Tone = Bad
		}
		t.Rows = append(t.Rows, []Value{
			plain(d.ID), plain(d.Server), toned(outcomeWord(d.Outcome, d.Phase), outcomeTone(d.Outcome)), plain(orUnknown(string(d.Reason))),
			plain(maybeShare(d.Coverage)), plain(count(d.Verdicts.Followed)), stuck, plain(count(d.Verdicts.Quiet)),
			plain(count(d.Verdicts.Elsewhere)), plain(count(d.Verdicts.Unknown)), plain(estimate(d.Lost, false)), plain(orUnknown(d.Upstream)), plain(string(d.Mode)),
			plain(fmt.Sprintf("%d s", d.Seconds)), plain(orUnknown(d.By)), plain(moment(d.Requested, in)),
		})
	}
	return t
}

// unsavedRuns says which runs are not on disk yet; "" where all are.
func unsavedRuns(l *DrillList) string {
	var ids []string
	why := ""
	for _, d := range l.Drills {
		if d.Unsaved != "" {
			ids, why = append(ids, d.ID), d.Unsaved
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return list(ids, 3) + ": " + unsaved(why)
}

func seenTable(l *ClientList, now time.Time) Table {
	t := Table{Columns: []Column{
		{Field: "address", Head: "CLIENT"}, {Field: "name", Head: "NAME"}, {Field: "queries", Head: "QUERIES", Right: true},
		{Field: "answers", Head: "ANSWERS", Right: true, Wide: true}, {Field: "errors", Head: "ERRORS", Right: true},
		{Field: "retries", Head: "RETRIES", Right: true}, {Field: "first", Head: "FIRST SEEN", Right: true, Wide: true},
		{Field: "last", Head: "LAST SEEN", Right: true}, {Field: "servers", Head: "SERVERS"},
	}}
	for _, c := range l.Clients {
		t.Rows = append(t.Rows, []Value{
			plain(c.Address), plain(orUnknown(c.Name)), plain(count(c.Queries)), plain(count(c.Answers)), plain(count(c.Errors)),
			plain(count(c.Retries)), plain(ago(c.First, now)), plain(ago(c.Last, now)), plain(orUnknown(strings.Join(c.Servers, ","))),
		})
	}
	return t
}

func affinityTable(l *AffinityList, now time.Time) Table {
	t := Table{Columns: []Column{{Field: "address", Head: "CLIENT"}, {Field: "name", Head: "NAME"}}}
	for _, s := range l.Servers {
		t.Columns = append(t.Columns, Column{Field: "queries", Head: strings.ToUpper(s), Right: true})
	}
	t.Columns = append(t.Columns, Column{Field: "favourite", Head: "FAVOURITE"}, Column{Field: "share", Head: "SHARE", Right: true},
		Column{Field: "last", Head: "LAST SEEN", Right: true}, Column{Field: "singleHomed", Head: "OTHERS"})
	// Who has no second server first: that is what the table is for.
	clients := slices.Clone(l.Clients)
	slices.SortStableFunc(clients, func(a, b Affinity) int {
		if a.SingleHomed != b.SingleHomed {
			return cmp.Compare(pick(a.SingleHomed, "0", "1"), pick(b.SingleHomed, "0", "1"))
		}
		return cmp.Compare(a.Address, b.Address)
	})
	for _, c := range clients {
		row := []Value{plain(c.Address), plain(orUnknown(c.Name))}
		for i := range l.Servers {
			cell := toned(unknown, Dim)
			if i < len(c.Queries) && c.Queries[i] > 0 {
				cell = plain(count(c.Queries[i]))
			}
			row = append(row, cell)
		}
		others := plain("yes")
		if c.SingleHomed {
			others = toned("none", Warn)
		}
		t.Rows = append(t.Rows, append(row, plain(orUnknown(c.Favourite)), plain(share(c.Share)), plain(ago(c.Last, now)), others))
	}
	return t
}

// listText is a list as a table, with what to know of it.
func listText(p *paper, t Table, wide bool, empty string, notes ...string) {
	if !wide {
		t = t.narrow()
	}
	if len(t.Rows) == 0 {
		p.line("%s", empty)
	} else {
		p.table(t, "")
	}
	for _, n := range notes {
		if n != "" {
			p.line("%s", p.paint(toned(n, Warn)))
		}
	}
}

// missing says whose part of a list could not be read.
func missing(servers []string) string {
	if len(servers) == 0 {
		return ""
	}
	return fmt.Sprintf("Not heard: %s. What those saw is missing here; `firebreak servers` says why.", list(servers, 5))
}

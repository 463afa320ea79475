package view

import (
	"fmt"
	"slices"
	"strings"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Words of the drills in which a server loses one of its upstreams. Its clients
// are answered all the while, so there are no verdicts: what they had from the
// server stands in their place.

// whatUpstream says what was done, in the tense that fits.
func whatUpstream(r *run.Report, length string) string {
	it := "upstream " + r.Spec.Upstream
	how := pick(r.Spec.Mode == run.ModeDown, "what it answers counts as failed", "what is sent to it vanishes")
	switch {
	case r.Phase == run.Refused || r.Started == nil && r.Phase.Final():
		return fmt.Sprintf("%s was to lose its %s %s. Nothing was changed.", r.Server, it, length)
	case r.Started == nil:
		return fmt.Sprintf("%s is going to lose its %s %s: %s.", r.Server, it, length, how)
	case r.Ended == nil:
		return fmt.Sprintf("%s is without its %s %s: %s.", r.Server, it, length, how)
	}
	return fmt.Sprintf("%s was without its %s %s: %s.", r.Server, it, length, how)
}

// planUpstream says in a sentence what the drill of an upstream would do.
func planUpstream(p *run.Plan) string {
	return fmt.Sprintf("%s would be without its upstream %s for %d s: %s. Its clients are answered by what is left: %s seen in the last hour.", p.Server, p.Spec.Upstream, p.Spec.Seconds,
		pick(p.Spec.Mode == run.ModeDown, "what it answers counts as failed", "what is sent to it vanishes"), many(max(p.TargetsTotal, len(p.Targets)), "client"))
}

func upstreamFigures(r *run.Report) []Pair {
	errors := Pair{Field: "during.errorShare", Label: "Errors", Value: toned(unknown, Dim), Note: "of what " + clean(r.Server) + " answered its clients meanwhile"}
	slow := Pair{Field: "during.p99Ms", Label: "P99", Value: toned(unknown, Dim), Note: "of its answers meanwhile"}
	if d := r.During; d != nil {
		errors.Value = toned(share(d.ErrorShare), Good)
		errors.Note = fmt.Sprintf("%s of %s answers to its clients", count(d.Errors), count(d.Answers))
		slow.Value = plain(maybe(d.P99Ms, millis))
		if b := r.Baseline; b != nil {
			errors.Note += ", before " + share(b.ErrorShare)
			slow.Note = "of its answers; before " + maybe(b.P99Ms, millis)
			if d.ErrorShare > b.ErrorShare {
				errors.Value.Tone = Warn
			}
		}
	}
	if slices.ContainsFunc(r.Findings, func(f run.Finding) bool { return f.Reason == run.ErrorsOnSurvivors }) {
		errors.Value.Tone = Bad
	}
	return []Pair{
		errors,
		slow,
		{Field: "drilled", Label: "Taken", Value: plain(count(r.Drilled)), Note: "questions and probes that the upstream did not get to answer"},
		{Field: "timeToNoticeSeconds", Label: "Noticed after", Value: plain(maybeSeconds(r.TimeToNoticeSeconds)), Note: "until the server ejected it"},
		{Field: "timeToMoveSeconds", Label: "Moved after", Value: plain(maybeSeconds(r.TimeToMoveSeconds)), Note: "until it was asked for the last time"},
		{Field: "heldSeconds", Label: "Held", Value: plain(maybeSeconds(r.HeldSeconds)), Note: "it was not asked"},
		{Field: "backSeconds", Label: "Back after", Value: plain(maybeSeconds(r.BackSeconds)), Note: "from the end until it was asked again"},
	}
}

func upstreamTable(r *run.Report) Table {
	t := Table{Columns: []Column{
		{Field: "address", Head: "UPSTREAM"}, {Field: "zone", Head: "ZONE"}, {Field: "role", Head: "ROLE"},
		{Field: "beforePerSecond", Head: "A SECOND BEFORE", Right: true}, {Field: "duringPerSecond", Head: "A SECOND DURING", Right: true},
		{Field: "asked", Head: "ASKED", Right: true}, {Field: "ejected", Head: "EJECTED"},
	}}
	for _, u := range r.Upstreams {
		role := toned(u.Role, Dim)
		if u.Role == run.RoleDrilled {
			role.Tone = Warn
		}
		gone := toned(orUnknown(u.Ejected), Dim)
		if u.Ejected != "" && u.Role == run.RoleOther {
			gone.Tone = Bad
		}
		t.Rows = append(t.Rows, []Value{
			plain(u.Address), plain(u.Zone), role, plain(fmt.Sprintf("%.1f", u.Before)), plain(fmt.Sprintf("%.1f", u.During)), plain(count(u.Asked)), gone,
		})
	}
	return t
}

// upstreamsWord lists a server's upstreams, and says of those that are not well.
func upstreamsWord(all []protocol.UpstreamState) Value {
	var names []string
	tone := Plain
	for _, u := range all {
		name := u.Address
		if !u.Healthy {
			name, tone = name+" (ejected)", Warn
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return toned(orUnknown(strings.Join(names, ",")), tone)
}

// meaningUpstream is what happens right now, where an upstream is drilled.
func meaningUpstream(p run.Phase) string {
	switch p {
	case run.Out:
		return "the upstream is away"
	case run.Noticed:
		return "the upstream is away and ejected"
	case run.Held:
		return "the upstream is away, and nothing asks it"
	}
	return ""
}

// liveUpstream is the line of figures of a live view.
func liveUpstream(r *run.Report) string {
	text := fmt.Sprintf("taken %s", count(r.Drilled))
	if d := r.During; d != nil {
		text += fmt.Sprintf("   errors %s of %s answers", count(d.Errors), count(d.Answers))
	}
	return text + fmt.Sprintf("   noticed after %s   moved after %s", maybeSeconds(r.TimeToNoticeSeconds), maybeSeconds(r.TimeToMoveSeconds))
}

// adviceUpstream is what to do about a reason where it is another thing than for
// a server's drill; "" where it is the same.
func adviceUpstream(r run.Reason) string {
	switch r {
	case run.TargetNotFound:
		return "Run `firebreak servers -o wide` for the servers and the upstreams that each of them has."
	case run.TargetBusy:
		return "Wait until the server is ready and the upstream well: `firebreak servers -o wide` says how they are. Drilling one that is already away proves nothing."
	case run.LastHealthy, run.NoneHealthy:
		return "Give the server another upstream for that zone, or mend the one that is not well. This one is all that it has."
	case run.NoTargets, run.NoEvidence:
		return "Drill an upstream that is asked, when clients are busy: one that nobody needs can die unnoticed, here as in earnest."
	case run.ErrorsOnSurvivors:
		return "Look at what the server answered its clients with SERVFAIL or REFUSED: the other upstreams cannot answer something that this one can, or a limit was too low for them."
	case run.DenialsRising:
		return "Look up with each of the other upstreams the names that this one knows: give them its zones, or send those zones to it alone by a stanza of their own."
	case run.RetriesRising, run.LatencyRising, run.AnswersTooSlow:
		return "The other upstreams were too slow for this one's share. Add one, or look at what slows them down."
	case run.NotNoticed:
		return "The server went on asking an upstream that was away. See what it knows of it: `upstreams` in `firebreak servers -o json`."
	case run.NotMoved:
		return "The server ejected the upstream and asked it all the same: see the table of upstreams, and for which zone."
	case run.NotBack:
		return "The server does not ask the upstream as before. Look at whether the upstream answers it now, and at the server's log."
	case run.SlowToNotice, run.SlowToMove:
		return "See how often the upstream was asked before: one that is hardly asked is noticed late."
	}
	return ""
}

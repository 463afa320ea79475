package view

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"firebreakdns.io/firebreak/controller/run"
)

// phases of a run, in order, as the live view shows them.
var phases = []run.Phase{run.Reading, run.Asking, run.Out, run.Noticed, run.Held, run.Back, run.Recording, run.Done}

// meaning of a phase: what is happening right now.
func meaning(p run.Phase) string {
	switch p {
	case run.Planned:
		return "about to begin"
	case run.Reading:
		return "nothing changes yet: reading what normal looks like"
	case run.Asking:
		return "asking every guard once more"
	case run.Out:
		return "the server is out"
	case run.Noticed:
		return "the server is out, and it has been noticed"
	case run.Held:
		return "the server is out, and its clients are answered by others"
	case run.Back:
		return "putting everything back"
	case run.Recording:
		return "the server is back; its clients are watched a little longer"
	case run.Done:
		return "done"
	case run.Refused:
		return "refused: nothing was changed"
	}
	return ""
}

// meaningOf is that of the run's phase, for what it drills.
func meaningOf(r *run.Report) string {
	if r.Spec.OfUpstream() {
		if m := meaningUpstream(r.Phase); m != "" {
			return m
		}
	}
	return meaning(r.Phase)
}

// Progress says how far the present phase is: its share, and the seconds it
// has left; known only of those whose end is set.
func progress(r *run.Report, now time.Time) (done float64, left time.Duration, ok bool) {
	var from time.Time
	var length time.Duration
	switch r.Phase {
	case run.Planned, run.Reading:
		from, length = r.Spec.Requested, time.Duration(r.Spec.Timings.ReadingSeconds)*time.Second
	case run.Out, run.Noticed, run.Held:
		if r.Started == nil {
			return 0, 0, false
		}
		from, length = *r.Started, r.Spec.Duration()
	case run.Recording:
		if r.Ended == nil {
			return 0, 0, false
		}
		from, length = *r.Ended, time.Duration(r.Spec.Timings.TailSeconds)*time.Second
	default:
		return 0, 0, false
	}
	if length <= 0 {
		return 0, 0, false
	}
	gone := min(max(now.Sub(from), 0), length)
	return gone.Seconds() / length.Seconds(), length - gone, true
}

// Live is one frame of a run that is on, for a terminal of that size: lines
// without their ends, none longer than width, no more than height of them.
func Live(r *run.Report, width, height int, s Style) []string {
	p := &paper{color: s.Color}
	p.line("%s", p.paint(toned(short(what(r), width), Strong)))
	p.line("%s", phaseLine(p, r.Phase, width))
	for _, line := range countdown(p, r, s.Now, width) {
		p.line("%s", line)
	}
	drilled := unknown // until the server is out
	if r.Started != nil {
		drilled = count(r.Drilled)
	}
	figures := []any{drilled, estimate(r.Lost, r.LostSampled), maybeSeconds(r.TimeToNoticeSeconds), maybeSeconds(r.TimeToMoveSeconds)}
	line := fmt.Sprintf("drilled %s   lost %s   noticed after %s   moved after %s", figures...)
	if utf8.RuneCountInString(line) > width {
		line = fmt.Sprintf("drilled %s  lost %s  noticed %s  moved %s", figures...)
	}
	if r.Spec.OfUpstream() {
		line = liveUpstream(r)
	}
	p.line("%s", short(line, width))
	lines := strings.Split(strings.TrimSuffix(p.String(), "\n"), "\n")

	// A blank, the heads, and a line that counts what does not fit.
	room := height - len(lines) - 3
	if len(r.Clients) == 0 || room < 1 {
		return lines
	}
	t := liveTable(r, room, width)
	q := &paper{color: s.Color && fits(t, width)}
	q.table(t, "")
	lines = append(lines, "")
	for _, line := range strings.Split(strings.TrimSuffix(q.String(), "\n"), "\n") {
		if !q.color {
			line = short(line, width)
		}
		lines = append(lines, line)
	}
	if more := len(r.Clients) - room; more > 0 {
		lines = append(lines, short(fmt.Sprintf("… and %s more", count(more)), width))
	}
	return lines
}

// liveTable are the first clients, in as many columns as the width has room
// for. Lost questions are known at the end only. Who it is and how it fares stays
// the longest: where nothing else fits, a name stands for its address.
func liveTable(r *run.Report, most, width int) Table {
	all := clientTable(r)
	all.Rows = all.Rows[:min(len(all.Rows), most)]
	for _, fields := range [][]string{
		{"address", "name", "verdict", "failoverSeconds", "drilled", "answeredBy"},
		{"address", "name", "verdict", "failoverSeconds", "drilled"},
		{"address", "name", "verdict", "failoverSeconds"},
	} {
		if t := all.only(fields...); fits(t, width) {
			return t
		}
	}
	for _, row := range all.Rows {
		if row[1].Text != unknown {
			row[0] = row[1]
		}
	}
	if t := all.only("address", "verdict", "failoverSeconds"); fits(t, width) {
		return t
	}
	return all.only("address", "verdict")
}

// fits reports whether no line of the table is longer than width.
func fits(t Table, width int) bool {
	q := &paper{}
	q.table(t, "")
	for line := range strings.SplitSeq(q.String(), "\n") {
		if utf8.RuneCountInString(line) > width {
			return false
		}
	}
	return true
}

// phaseLine is the way of a run with where it is: done ones dim, the present one strong.
func phaseLine(p *paper, at run.Phase, width int) string {
	var parts []string
	length, here := 0, -1
	for i, phase := range phases {
		if phase == at {
			here = i
		}
	}
	for i, phase := range phases {
		word, tone := string(phase), Dim
		switch {
		case i == here:
			word, tone = "["+word+"]", Strong
		case i < here:
			tone = Good
		}
		length += utf8.RuneCountInString(word) + 1
		parts = append(parts, p.paint(toned(word, tone)))
	}
	if length-1 > width || here < 0 {
		return p.paint(toned(short(string(at), width), Strong))
	}
	return strings.Join(parts, " ")
}

// countdown is a bar and the seconds that the phase has left, and what it means:
// beside it, or below where there is no room.
func countdown(p *paper, r *run.Report, now time.Time, width int) []string {
	done, left, ok := progress(r, now)
	if !ok {
		return []string{short(meaningOf(r), width)}
	}
	const bar = 24
	full := int(done * bar)
	togo := fmt.Sprintf(" %2.0f s to go", left.Seconds())
	if width < bar+utf8.RuneCountInString(togo) {
		return []string{short(strings.TrimSpace(togo)+": "+meaningOf(r), width)}
	}
	tone := Dim
	if r.Phase == run.Out || r.Phase == run.Noticed || r.Phase == run.Held {
		tone = Warn
	}
	drawn := p.paint(toned(strings.Repeat("█", full)+strings.Repeat("░", bar-full), tone)) + togo
	if text := ": " + meaning(r.Phase); bar+utf8.RuneCountInString(togo+text) <= width {
		return []string{drawn + text}
	}
	return []string{drawn, short(meaning(r.Phase), width)}
}

// short is the text cut to width, with an ellipsis where something is missing.
func short(text string, width int) string {
	text = clean(text)
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(width-1, 0)]) + "…"
}

// Changes are what happened between two looks at a run, one line each: for
// logs and pipes, where a live view would be noise. before is nil at first.
func Changes(before, r *run.Report, s Style) []string {
	p := &paper{color: s.Color}
	at := func(t time.Time) string {
		when := t.In(s.in()).Format("15:04:05")
		if r.Started != nil && !t.Before(*r.Started) {
			when += fmt.Sprintf(" %+6.1f s", t.Sub(*r.Started).Seconds())
		}
		return when
	}
	var lines []string
	say := func(t time.Time, v Value) { lines = append(lines, at(t)+"  "+p.paint(v)) }

	// Some of what happened is learnt after what came later, and stands before it.
	told := map[string]int{}
	was := map[string]run.Verdict{}
	if before == nil {
		lines = append(lines, p.paint(toned("drill "+r.ID+": "+what(r), Strong)))
	} else {
		for _, e := range before.Timeline {
			told[e.What]++
		}
		for _, c := range before.Clients {
			was[c.Address] = c.Verdict
		}
	}
	for _, e := range r.Timeline {
		if told[e.What] > 0 {
			told[e.What]--
			continue
		}
		say(e.At, plain(e.What))
	}
	for _, c := range sorted(r.Clients) {
		if c.Verdict == was[c.Address] || c.Verdict != run.Followed && c.Verdict != run.Stuck {
			continue
		}
		who := c.Address
		if c.Name != "" {
			who = c.Name + " (" + c.Address + ")"
		}
		text := who + ": " + string(c.Verdict)
		if c.FailoverSeconds != nil {
			text += " after " + seconds(*c.FailoverSeconds)
		}
		if c.AnsweredBy != "" {
			text += ", answered by " + c.AnsweredBy
		}
		say(s.Now, toned(text, verdictTone(c.Verdict)))
	}
	return lines
}

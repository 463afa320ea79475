package view

import (
	"math"
	"strconv"

	"firebreakdns.io/firebreak/controller/run"
)

// picture is a run drawn over time: the phases on top, then a lane for each
// client. Both have one scale, so that what stands above each other took
// equally long. The phases count from the start of the outage; a lane counts
// from its client's own first drilled query, which is when the outage began
// for that client.
type picture struct {
	Width, Height int
	Top, Bottom   px // of the grid
	LabelY        px // of the ticks
	Phases        []bar
	Ticks         []tick
	Lanes         []lane
	Zero          px // where the outage starts
	More          int
}

// px is a coordinate, written with as few digits as it needs.
type px float64

func (p px) String() string { return strconv.FormatFloat(float64(p), 'f', -1, 64) }

func at(f float64) px { return px(math.Round(f*10) / 10) }

// bar is a span of time; Label is empty where there is no room for it.
type bar struct {
	Class, Label, Title string
	X, Y, W, H, Middle  px
}

type tick struct {
	X     px
	Label string
}

// lane is what one client went through.
type lane struct {
	Y, TextY     px
	Client       string // short
	Title        string
	Class        string // the verdict
	Wait         bool   // a bar from 0 to End: without an answer
	End          px
	Line         bool // from End on: answered, or nothing known
	Dot          bool // at End: the first answer elsewhere
	Outcome      string
	LineX, LineW px
}

const (
	pictureWidth = 960
	plotLeft     = 176
	plotRight    = 796
	phaseTop     = 8
	phaseHeight  = 30
	laneHeight   = 22
	mostLanes    = 30
)

// draw makes the picture of a run; nil where nothing was out.
func draw(r *run.Report) *picture {
	if r.Started == nil {
		return nil
	}
	out := float64(r.Spec.Seconds)
	if r.Ended != nil {
		out = r.Ended.Sub(*r.Started).Seconds()
	}
	out = max(out, 1)
	before, after := out*0.08, out*0.12
	back := -1.0
	if r.BackSeconds != nil {
		// A server that took its time gets room to show it, within reason.
		back = min(max(*r.BackSeconds, 0), out*0.6)
		after = max(after, back+out*0.1)
	}
	scale := (plotRight - plotLeft) / (before + out + after)
	x := func(second float64) float64 { return plotLeft + (second+before)*scale }

	p := &picture{Width: pictureWidth, Top: phaseTop, Zero: at(x(0))}
	phase := func(class, label, title string, from, to float64) {
		if to <= from {
			return
		}
		b := bar{Class: class, Label: label, Title: title, X: at(x(from)), Y: phaseTop, W: at((to - from) * scale), H: phaseHeight, Middle: at(x((from + to) / 2))}
		if float64(b.W) < float64(len(label))*7+10 {
			b.Label = ""
		}
		p.Phases = append(p.Phases, b)
	}
	noticed, moved := out, out
	if r.TimeToNoticeSeconds != nil {
		noticed = min(max(*r.TimeToNoticeSeconds, 0), out)
	}
	if r.TimeToMoveSeconds != nil {
		moved = min(max(*r.TimeToMoveSeconds, noticed), out)
	}
	phase("before", "before", "before the outage", -before, 0)
	phase("out", "out", "out, and not noticed yet", 0, noticed)
	phase("noticed", "noticed", "out, noticed, traffic not moved yet", noticed, moved)
	phase("moved", "moved", "out, answered by others", moved, out)
	switch {
	case back >= 0:
		phase("back", "coming back", "over, not yet as before", out, out+back)
		phase("before", "back", "as before", out+back, out+after)
	case r.Phase.Final():
		phase("out", "not back", "over, but not as it was", out, out+after)
	}

	y := phaseTop + phaseHeight + 12.0
	clients := sorted(r.Clients)
	p.More = max(r.ClientsTotal, len(clients)) - min(len(clients), mostLanes)
	for _, c := range clients[:min(len(clients), mostLanes)] {
		p.Lanes = append(p.Lanes, newLane(c, y, out, x))
		y += laneHeight
	}
	p.Bottom = at(y)
	p.LabelY = at(y + 18)
	for s, step := 0.0, tickStep(out); s <= out+after; s += step {
		p.Ticks = append(p.Ticks, tick{X: at(x(s)), Label: strconv.FormatFloat(s, 'f', -1, 64) + " s"})
	}
	p.Height = int(y) + 26
	return p
}

func newLane(c run.ClientReport, y, out float64, x func(float64) float64) lane {
	who := c.Name
	if who == "" {
		who = c.Address
	}
	l := lane{Y: at(y + laneHeight/2 - 1), TextY: at(y + laneHeight/2 + 3), Client: short(who, 24), Class: string(c.Verdict), End: at(x(0))}
	l.Title = clean(who + " (" + c.Address + "): " + verdictWord(c.Verdict))
	switch c.Verdict {
	case run.Followed:
		l.Line, l.Outcome = true, "asked both all along"
		if c.FailoverSeconds != nil {
			l.Wait, l.Dot = true, true
			l.End = at(x(min(max(*c.FailoverSeconds, 0), out*1.1)))
			l.Outcome = seconds(*c.FailoverSeconds)
			if c.AnsweredBy != "" {
				l.Outcome += " → " + short(c.AnsweredBy, 12)
			}
		}
	case run.Stuck, run.Unknown:
		l.Wait, l.End = true, at(x(out))
		l.Outcome = string(c.Verdict)
		if some(c.Lost) {
			l.Outcome += ", " + count(*c.Lost) + " lost"
		}
	default:
		l.Line, l.Outcome = true, verdictWord(c.Verdict)
	}
	l.LineX, l.LineW = l.End, max(at(x(out))-l.End, 0)
	return l
}

// WaitW is the width of the bar of the time without an answer, from zero on.
func (l lane) WaitW(zero px) px { return at(float64(max(l.End-zero, 2))) }

// WaitY is the top of that bar.
func (p *picture) WaitY(l lane) px { return l.Y - 6 }

// LineEnd is where a lane's line ends: with the outage.
func (p *picture) LineEnd(l lane) px { return at(float64(l.LineX + l.LineW)) }

// tickStep is a round number of seconds that makes between four and nine ticks.
func tickStep(out float64) float64 {
	for _, step := range []float64{1, 2, 5, 10, 15, 30, 60} {
		if out/step <= 8 {
			return step
		}
	}
	return 120
}

// segment is a part of the bar of verdicts.
type segment struct {
	Class string
	X, W  px
}

// share of each verdict in a bar of a thousand units.
func segments(counts []verdictCount) []segment {
	total := 0
	for _, c := range counts {
		total += c.Count
	}
	var out []segment
	x := 0.0
	for _, c := range counts {
		if c.Count == 0 {
			continue
		}
		w := float64(c.Count) / float64(total) * 1000
		out = append(out, segment{Class: string(c.Verdict), X: at(x), W: at(w)})
		x += w
	}
	return out
}

// ring is the coverage as an arc: its dashes, on a circle of this radius.
type ring struct {
	Dash, Rest px
}

const ringRadius = 52

func coverageRing(f *float64) *ring {
	if f == nil {
		return nil
	}
	length := 2 * math.Pi * ringRadius
	dash := length * min(max(*f, 0), 1)
	return &ring{Dash: at(dash), Rest: at(length - dash + 1)}
}

package cmd

import (
	"fmt"
	"strings"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
)

// frames draw a run over and over in the same place. A frame is written in one
// piece, over the old one: each line is overwritten and only its rest erased,
// so nothing is ever blank in between, which is what flickers.
type frames struct {
	a     *app
	drawn int // lines of the last frame
}

const (
	hideCursor   = "\x1b[?25l"
	showCursor   = "\x1b[?25h"
	eraseLine    = "\x1b[K" // from the cursor on
	eraseBelow   = "\x1b[J"
	beginUpdate  = "\x1b[?2026h" // terminals that know it show the frame at once
	finishUpdate = "\x1b[?2026l"
)

func (f *frames) show(r *run.Report, now time.Time) {
	width, height := size(f.a.Err)
	s := f.a.style(f.a.Err)
	s.Now = now
	// A column and a line are left free: a full last one would scroll.
	lines := view.Live(r, width-1, height-1, s)
	var b strings.Builder
	b.WriteString(beginUpdate + hideCursor + f.home())
	for _, line := range lines {
		b.WriteString(line + eraseLine + "\r\n")
	}
	b.WriteString(eraseBelow + finishUpdate)
	f.drawn = len(lines)
	_, _ = fmt.Fprint(f.a.Err, b.String())
}

// home goes to where the last frame began.
func (f *frames) home() string {
	if f.drawn == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r", f.drawn)
}

// end takes the frame away: the report comes in its place.
func (f *frames) end() {
	_, _ = fmt.Fprint(f.a.Err, f.home()+eraseBelow+showCursor)
	f.drawn = 0
}

package view

import (
	"strings"
	"testing"
	"unicode/utf8"

	"firebreakdns.io/firebreak/controller/run"
)

// TestLiveFits holds a frame to the terminal it is for: a longer line would
// wrap and the next frame be drawn over the wrong ones.
func TestLiveFits(t *testing.T) {
	for _, r := range []*run.Report{running(), failed(), refused(), hostile(), upstream(), losingUpstream()} {
		for _, width := range []int{20, 40, 80, 200} {
			for _, height := range []int{5, 10, 24} {
				lines := Live(r, width, height, Style{Now: after(12)})
				if len(lines) > height {
					t.Errorf("%d lines of %d", len(lines), height)
				}
				for _, line := range lines {
					if n := utf8.RuneCountInString(line); n > width {
						t.Errorf("%d columns of %d: %q", n, width, line)
					}
				}
			}
		}
	}
	compare(t, "running.live", []byte(strings.Join(Live(running(), 100, 24, Style{Now: after(12)}), "\n")+"\n"))
}

// losingUpstream is a drill of an upstream in the middle of its outage.
func losingUpstream() *run.Report {
	r := upstream()
	r.Phase, r.Outcome, r.Reason, r.Message, r.Ended = run.Noticed, "", "", "", nil
	return r
}

// What is learnt late stands in the timeline before what was told already.
func TestChangesSayWhatIsLearntLate(t *testing.T) {
	before, now := losingUpstream(), losingUpstream()
	now.Timeline = []run.Event{before.Timeline[0], {At: after(0.5), What: "learnt late"}, before.Timeline[1]}
	lines := strings.Join(Changes(before, now, Style{Now: after(12)}), "\n")
	if !strings.Contains(lines, "learnt late") || strings.Contains(lines, "ejected") || strings.Contains(lines, "took the order") {
		t.Error(lines)
	}
}

// TestChangesSayEachThingOnce follows a run from its start to its end.
func TestChangesSayEachThingOnce(t *testing.T) {
	begun := running()
	begun.Timeline, begun.Clients = begun.Timeline[:3], nil
	steps := []*run.Report{begun, begun, running(), failed(), failed()}
	var before *run.Report
	var lines []string
	for _, r := range steps {
		lines = append(lines, Changes(before, r, Style{Now: after(12)})...)
		before = r
	}
	said := map[string]bool{}
	for _, line := range lines {
		if said[line] {
			t.Errorf("said twice: %s", line)
		}
		said[line] = true
	}
	compare(t, "changes.lines", []byte(strings.Join(lines, "\n")+"\n"))
}

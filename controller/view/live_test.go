package view

import (
	"fmt"
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

// TestLiveSaysWhatIsKnown: nothing is shown as none while nobody knows, names
// outlive the columns that a narrow terminal has no room for.
func TestLiveSaysWhatIsKnown(t *testing.T) {
	before, on := running(), running()
	before.Started, before.Drilled = nil, 0
	for name, c := range map[string]struct {
		r    *run.Report
		says []string
	}{
		"not out yet": {before, []string{"drilled –", "lost –"}},
		"out":         {on, []string{"drilled 1,187", "lost –"}},
	} {
		text := strings.Join(Live(c.r, 100, 24, Style{Now: after(12)}), "\n")
		for _, want := range c.says {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
	}
	for _, width := range []int{100, 60, 40, 30} {
		text := strings.Join(Live(on, width, 24, Style{Now: after(12)}), "\n")
		for _, c := range on.Clients {
			if !strings.Contains(text, c.Name) || c.Name == "" && !strings.Contains(text, c.Address) {
				t.Errorf("at %d columns nothing is said of %s %s:\n%s", width, c.Address, c.Name, text)
			}
		}
	}
	if text := strings.Join(Live(on, 60, 24, Style{Now: after(12)})[1:], "\n"); !strings.Contains(text, "192.0.2.31") || !strings.Contains(text, "DRILLED") || strings.Contains(text, "…") {
		t.Errorf("60 columns have room for address, name and count:\n%s", text)
	}
}

// TestPlanSummary: who is asked sees whom it is about, and each warning once.
func TestPlanSummary(t *testing.T) {
	p := plan(true)
	text := PlanSummary(p, Style{Now: after(0)})
	for want, times := range map[string]int{"laptop": 1, "SingleHomed": 1, "(192.0.2.31)": 1, "none in 7 days": 1, "and more": 0} {
		if n := strings.Count(text, want); n != times {
			t.Errorf("%q stands there %d times, want %d:\n%s", want, n, times, text)
		}
	}
	for i := range 40 {
		p.Targets = append(p.Targets, run.PlanClient{Address: fmt.Sprintf("198.51.100.%d", i)})
	}
	p.TargetsTotal = 1042
	text = PlanSummary(p, Style{Now: after(0)})
	if n := strings.Count(text, "\n"); n > summaryClients+5 || !strings.Contains(text, "and 1,032 more") || !strings.Contains(text, "thermostat") {
		t.Errorf("%d lines:\n%s", n, text)
	}
}

package demo

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"firebreakdns.io/firebreak/controller/run"
)

// toldAt is the story as it is told at a width, without a drill.
func toldAt(width int) string {
	var b bytes.Buffer
	w := &world{network: netip.MustParsePrefix("127.71.0.0/24")}
	for i := range serverCount {
		w.servers = append(w.servers, server{name: fmt.Sprintf("ns%d", i+1), dns: netip.AddrPortFrom(w.host(byte(1+i)), 53)})
	}
	d := &demo{options: Options{Story: &b, Width: width}, world: w, cast: newCast(w)}
	d.introduce()
	d.announce()
	ns2 := d.world.servers[1].dns
	for _, f := range []felt{
		{Verdict: run.Followed, Waited: 5 * time.Second, Slow: 3, Lookups: 30, By: ns2},
		{Verdict: run.Followed, Waited: 4 * time.Millisecond, Lookups: 30, By: ns2},
		{Verdict: run.Stuck, Asked: 8, Lost: 2},
	} {
		d.saw("thermostat", f.Verdict, run.Seconds(f.Waited.Seconds()), f.words(d.nameOf)+"; back on ns1 since")
	}
	four := 4
	d.conclude(&run.Report{Outcome: run.Failed, Reason: run.ClientsStuck, Lost: &four}, "/home/you/firebreak-demo-report.html")
	return b.String()
}

// TestStoryFits: text is broken at the terminal's width and between words, and
// nothing is said less for that.
func TestStoryFits(t *testing.T) {
	whole := strings.Fields(toldAt(0))
	for _, width := range []int{40, 60, 80, 200} {
		text := toldAt(width)
		for line := range strings.SplitSeq(text, "\n") {
			// A command is not broken: it is to be pasted.
			if n := utf8.RuneCountInString(line); n > width && !strings.Contains(line, "firebreak ") && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
		if got := strings.Fields(text); strings.Join(got, " ") != strings.Join(whole, " ") {
			t.Errorf("at %d columns something else is said:\n%s", width, text)
		}
		for _, name := range []string{"laptop", "thermostat", "printer"} {
			if !strings.Contains(text, name) {
				t.Errorf("at %d columns nothing is said of the %s", width, name)
			}
		}
	}
}

// TestStorySaysOneThing: durations have one form, and what counts differently says so.
func TestStorySaysOneThing(t *testing.T) {
	text := toldAt(60)
	if odd := regexp.MustCompile(`\d(ms|s)\b|\d ms\b|[^\d.]0 s\b`).FindAllString(strings.ReplaceAll(text, fmt.Sprintf("%ds", drillSeconds), ""), -1); len(odd) > 0 {
		t.Errorf("durations in another form: %q in\n%s", odd, text)
	}
	for _, want := range []string{"all 2 lookups lost", "nobody answered: 4", "A and for AAAA", "<0.01 s", "5.0 s"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

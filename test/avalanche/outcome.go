package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"firebreakdns.io/firebreak/test/bench/machine"
	"firebreakdns.io/firebreak/test/bench/stats"
)

// result is what avalanche.json holds.
type result struct {
	Machine machine.Machine `json:"machine"`
	Begun   time.Time       `json:"begun"`
	Options options         `json:"options"`
	Ways    []wayResult     `json:"ways"`
}

// wayResult is what came of one way.
type wayResult struct {
	Way                   string  `json:"way"`
	Title                 string  `json:"title"`
	Before, During, After phase   `json:"-"`
	Phases                []phase `json:"phases"`
	// Hurt are the clients with at least one failed lookup that began after the
	// server died.
	Clients int `json:"clients"`
	Hurt    int `json:"clientsHurt"`
	// Recovered is how long after the failure the last second began in which a
	// lookup failed or P99 was above twice the worst second's before; -1: it had
	// not by the end.
	Recovered float64  `json:"recoveredSeconds"`
	Seconds   []second `json:"seconds"`
}

// phase of the run: before the failure, while the dead server is in the
// Service, and after.
type phase struct {
	Name    string  `json:"name"`
	Lookups int     `json:"lookups"`
	P50     float64 `json:"p50Ms"`
	P99     float64 `json:"p99Ms"`
	Worst   float64 `json:"worstMs"`
	Failed  float64 `json:"failedShare"`
	// Asked is how many queries reached the servers, the dead one included, for
	// each question that an application had.
	Asked float64 `json:"queriesPerQuestion"`
	// Survivors' load: what arrived there, as a share of what they can answer,
	// on the average and in the worst second.
	Load    float64 `json:"survivorsLoad"`
	Peak    float64 `json:"survivorsPeak"`
	Dropped float64 `json:"survivorsDroppedShare"`
}

// second of the run; lookups count for the second in which they began.
type second struct {
	At      int     `json:"at"` // since the end of the warming
	Lookups int     `json:"lookups"`
	P99     float64 `json:"p99Ms"`
	Failed  int     `json:"failed"`
}

// calm is the P99 in milliseconds below which twice of it is noise.
const calm = 5.0

// outcome of a way from what clients and servers wrote down. lost is what was
// sent to the dead server until it was taken out, and until the end.
func (t *trial) outcome(all []lookedUp, tallies []map[int64]tally, lost [2]int) wayResult {
	w := wayResult{Way: t.name, Title: t.title, Clients: t.Pods}
	warm := t.Warm.Seconds()
	fails := warm + t.Before.Seconds()
	out := fails + t.During.Seconds()
	// A lookup of the last second before may still be going on when the server dies.
	w.Before = t.phase("before", all, tallies, warm, fails-1, 0)
	w.During = t.phase("during", all, tallies, fails, out, lost[0])
	w.After = t.phase("after", all, tallies, out, t.total().Seconds(), lost[1]-lost[0])
	w.Phases = []phase{w.Before, w.During, w.After}
	hurt := map[int]bool{}
	for _, l := range all {
		if !l.OK && l.Begun >= fails {
			hurt[l.Pod] = true
		}
	}
	w.Hurt = len(hurt)
	w.Seconds = seconds(all, warm, t.total().Seconds())
	usual := calm
	for _, s := range w.Seconds[:int(fails-warm)-1] {
		usual = max(usual, s.P99)
	}
	w.Recovered = recovered(w.Seconds, fails-warm, 2*usual)
	return w
}

// phase is what happened from one time to another, in seconds since the start.
func (t *trial) phase(name string, all []lookedUp, tallies []map[int64]tally, from, to float64, lost int) phase {
	p := phase{Name: name}
	var took []float64
	failed, wanted := 0, 0
	for _, l := range all {
		if l.Begun < from || l.Begun >= to {
			continue
		}
		took = append(took, 1000*l.Took)
		if !l.OK {
			failed++
		}
		if l.Again == 0 { // asked again is the same question
			wanted += l.Wanted
		}
	}
	p.Lookups = len(took)
	p.P50, _ = stats.Percentile(took, 0.5)
	p.P99, _ = stats.Percentile(took, 0.99)
	p.Worst, _ = stats.Percentile(took, 1)
	arrived, survivors, dropped, n := lost, 0.0, 0.0, 0
	for sec := t.begin.Unix() + int64(math.Ceil(from)); sec < t.begin.Unix()+int64(to); sec++ {
		sum := 0.0
		for i, ts := range tallies {
			arrived += int(ts[sec+1].Arrived) // the second that ended then
			if i < serverCount-1 {
				sum += float64(ts[sec+1].Arrived)
				dropped += float64(ts[sec+1].Dropped)
			}
		}
		survivors += sum
		n++
		p.Peak = max(p.Peak, sum/float64(t.Capacity*(serverCount-1)))
	}
	if n > 0 {
		p.Load = survivors / float64(n*t.Capacity*(serverCount-1))
	}
	if survivors > 0 {
		p.Dropped = dropped / survivors
	}
	if p.Lookups > 0 {
		p.Failed = float64(failed) / float64(p.Lookups)
	}
	if wanted > 0 {
		p.Asked = float64(arrived) / float64(wanted)
	}
	return p
}

// seconds are the run's, from the end of the warming.
func seconds(all []lookedUp, from, to float64) []second {
	took := make([][]float64, int(to-from))
	found := make([]second, len(took))
	for _, l := range all {
		i := int(math.Floor(l.Begun - from))
		if l.Begun < from || i >= len(found) {
			continue
		}
		took[i] = append(took[i], 1000*l.Took)
		if !l.OK {
			found[i].Failed++
		}
	}
	for i := range found {
		found[i].At, found[i].Lookups = i, len(took[i])
		found[i].P99, _ = stats.Percentile(took[i], 0.99)
	}
	return found
}

// recovered is how long after the failure the last bad second ended; 0 if there
// is none, -1 if the last second is one.
func recovered(all []second, fails, limit float64) float64 {
	end := fails
	for _, s := range all {
		if float64(s.At) >= fails && (s.Failed > 0 || s.P99 > limit) {
			end = float64(s.At + 1)
		}
	}
	if len(all) > 0 && end > float64(all[len(all)-1].At) {
		return -1
	}
	return end - fails
}

// holds says whether ours does what it has to: nobody fails, and P99 during the
// outage is within twice of before.
func (r *result) holds() bool {
	for _, w := range r.Ways {
		if w.Way == "ours" {
			return w.unshaken()
		}
	}
	return false
}

func (w *wayResult) unshaken() bool {
	return w.During.Failed == 0 && w.After.Failed == 0 && w.During.P99 <= 2*max(w.Before.P99, calm)
}

// short is a way's outcome in a line.
func (w *wayResult) short() string {
	return fmt.Sprintf("%-10s P99 %.1f ms, during %.1f ms, after %.1f ms; failed %.2f %%, %.2f %%, %.2f %%; %d of %d clients hurt",
		w.Way, w.Before.P99, w.During.P99, w.After.P99, 100*w.Before.Failed, 100*w.During.Failed, 100*w.After.Failed, w.Hurt, w.Clients)
}

func (r *result) writeJSON(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644) //nolint:gosec // to be read
}

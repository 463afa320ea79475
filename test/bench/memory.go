package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"firebreakdns.io/firebreak/test/bench/program"
)

// measureMemory fills each cache with the same entries and looks at what the
// process has more than before.
func (s *session) measureMemory() error {
	for _, d := range s.present {
		if d.kind == floorKind || d.variant || d.streamsOnly || d.name == "nodelocal" { // nodelocal's is coredns's cache, of a fixed size
			continue
		}
		select {
		case <-s.stop:
			return errInterrupted
		default:
		}
		m, err := s.memoryOf(d)
		if err != nil {
			s.fail(0, d, memoryWork, err)
			continue
		}
		s.result.Memory = append(s.result.Memory, m)
		fmt.Fprintf(s.progress, "memory %-14s %6.0f bytes an entry (live %.0f), %d of %d held\n", d.name, m.Bytes, m.Live, m.Held, m.Entries)
	}
	return nil
}

func (s *session) memoryOf(d *server) (m memory, err error) {
	m = memory{Server: d.name, Entries: s.entries}
	goProgram := d.kind == oursKind || d.kind == stockKind
	r, err := start(d, s.tools, place{workers: 1, upstream: s.upstream, entries: s.entries, profile: goProgram}, probe)
	if err != nil {
		return m, err
	}
	defer r.stop()
	// Buffers and pools first, those for misses too, so that they are not taken for entries.
	for _, w := range []string{"peak", "miss"} {
		if _, err := apply(workNamed(w), r, 500*time.Millisecond, 0); err != nil {
			return m, err
		}
	}
	empty, err := residentOf(r, goProgram)
	if err != nil {
		return m, err
	}
	// Twice, because the first time some questions are lost; the third time shows what is held.
	var asked uint64
	for range 3 {
		before, err := questionsAsked(s.upstreamAddr())
		if err != nil {
			return m, err
		}
		if _, err := fill(r, s.entries); err != nil {
			return m, err
		}
		after, err := questionsAsked(s.upstreamAddr())
		if err != nil {
			return m, err
		}
		asked = after - before
	}
	m.Held = s.entries - int(asked) //nolint:gosec // at most a few million
	if m.Held < s.entries*9/10 {
		return m, fmt.Errorf("answers %d of %d entries itself after it was asked twice for each", m.Held, s.entries)
	}
	full, err := residentOf(r, goProgram)
	if err != nil {
		return m, err
	}
	m.Empty, m.Full = empty.rss, full.rss
	m.Bytes = float64(full.rss-empty.rss) / float64(m.Held)
	if goProgram {
		m.Live = (full.live - empty.live) / float64(m.Held)
	}
	return m, r.err()
}

// fill asks for each of the entries once.
func fill(r *running, entries int) (l load, err error) {
	out, err := program.Run(program.Spec{
		Args: []string{
			r.place.tools.load, "-p", fmt.Sprint(r.place.port), "-u", fmt.Sprint(entries), "-z", fillZone,
			"-s", "16", "-w", "8", "-d", "120",
		},
		CPUs: r.place.tools.clientCPU(1),
	})
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(out, &l); err != nil {
		return l, err
	}
	if l.Answered == 0 {
		return l, errors.New("no answer")
	}
	return l, nil
}

// resident is what a process has in memory.
type resident struct {
	rss  int64
	live float64 // on a Go program's heap, after a collection
}

// heapAlloc is a figure at the end of a heap profile in text.
var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

func residentOf(r *running, goProgram bool) (m resident, err error) {
	time.Sleep(time.Second) // for what goes on behind the last answer
	if !goProgram {
		m.rss, err = r.rss()
		return m, err
	}
	// Resident memory first: the profile itself takes some.
	if m.rss, err = r.rss(); err != nil {
		return m, err
	}
	var heap float64
	for range 2 { // the second collection frees what the first found in pools
		if heap, err = heapOf(r.place.extra); err != nil {
			return m, err
		}
	}
	m.live = heap
	return m, nil
}

// heapOf has a Go program collect its garbage and says what is left on its heap.
func heapOf(port int) (float64, error) {
	client := &http.Client{Timeout: 30 * time.Second}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/heap?gc=1&debug=1", port))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	m := heapAlloc.FindSubmatch(body)
	if m == nil {
		return 0, fmt.Errorf("the heap profile (%s) does not say HeapAlloc", resp.Status)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

package main

import (
	"encoding/json"
	"os"
	"time"

	"firebreakdns.io/firebreak/test/bench/machine"
)

// result is what bench.json holds.
type result struct {
	Machine machine.Machine `json:"machine"`
	Begun   time.Time       `json:"begun"`
	Took    float64         `json:"tookSeconds"`
	Rounds  int             `json:"rounds"`
	Length  float64         `json:"lengthSeconds"`
	Servers []serverInfo    `json:"servers"`
	Figures []figure        `json:"figures"`
	Memory  []memory        `json:"memory,omitempty"`
	Cold    *cold           `json:"coldStart,omitempty"`
	Claims  []claimed       `json:"claims"`
	Runs    []measured      `json:"runs"`
	// Failures are runs that gave no figure, and why.
	Failures []string `json:"failures,omitempty"`
}

type serverInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Kind    kind   `json:"kind"`
	Version string `json:"version,omitempty"`
	Missing string `json:"missing,omitempty"` // why it was not measured
}

// load is what a load client says of a run.
type load struct {
	Sent     uint64  `json:"sent"`
	Answered uint64  `json:"answered"`
	Late     uint64  `json:"late"`
	Bad      uint64  `json:"bad"`
	Lost     uint64  `json:"lost"`
	Seconds  float64 `json:"seconds"`
	// Latencies, in microseconds.
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// measured is one server under one load in one round.
type measured struct {
	Round  int    `json:"round"`
	Server string `json:"server"`
	Work   string `json:"work"`
	load
	Rate     float64 `json:"rate"`         // answers a second
	CPU      float64 `json:"cpu"`          // microseconds of CPU time an answer, on the server
	User     float64 `json:"cpuUser"`      // of which in the program
	System   float64 `json:"cpuSystem"`    // and in the kernel
	Busy     float64 `json:"busy"`         // share of its CPUs' time that the server used
	Upstream float64 `json:"upstream"`     // questions to the upstream for each answer
	RSS      int64   `json:"rssBytes"`     // after the load
	Load     float64 `json:"machineLoad1"` // the machine's load average before
}

// figure is a server under one load: medians over the rounds.
type figure struct {
	Server string  `json:"server"`
	Work   string  `json:"work"`
	Rounds int     `json:"rounds"`
	CPU    float64 `json:"cpu"`
	User   float64 `json:"cpuUser"`
	System float64 `json:"cpuSystem"`
	Rate   float64 `json:"rate"`
	Busy   float64 `json:"busy"`
	P50    float64 `json:"p50"`
	P99    float64 `json:"p99"`
	Lost   float64 `json:"lostShare"`
	RSS    int64   `json:"rssBytes"`
	// CPU relative to the floors: medians of each round's ratio, 0 if not measured.
	ToC  float64 `json:"toFloorC"`
	ToGo float64 `json:"toFloorGo"`
}

// memory is what a cache takes.
type memory struct {
	Server  string  `json:"server"`
	Entries int     `json:"entries"` // put in
	Held    int     `json:"held"`    // answered from the cache afterwards
	Empty   int64   `json:"rssEmptyBytes"`
	Full    int64   `json:"rssFullBytes"`
	Bytes   float64 `json:"bytesPerEntry"` // resident memory
	// Live is what stays on the heap after a garbage collection; Go programs only.
	Live float64 `json:"liveBytesPerEntry,omitempty"`
}

// cold is a start from a snapshot with the upstream away.
type cold struct {
	Server   string  `json:"server"`
	Entries  int     `json:"entries"`
	File     int64   `json:"fileBytes"`
	Empty    float64 `json:"emptySeconds"`    // from exec to the first answer with no snapshot
	Seconds  float64 `json:"seconds"`         // the same with it
	Answered float64 `json:"answeredShare"`   // of the first second's questions
	Held     float64 `json:"heldShare"`       // of all entries
	Save     float64 `json:"shutdownSeconds"` // from the signal to the end, snapshot written
}

func (r *result) writeJSON(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644) //nolint:gosec // to be read
}

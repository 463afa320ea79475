package calm_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestFloodOfRandomNames: a flood of names that nobody asked for before, half of
// which exist, does not make the process grow once it is full, and what is asked
// again and again stays.
func TestFloodOfRandomNames(t *testing.T) {
	if testing.Short() {
		t.Skip("floods for 8 seconds: not with -short")
	}
	// So many names go through the whole cache several times; a slow machine takes
	// longer for them.
	length, names := 8*time.Second, int64(40_000)
	if strict() {
		length, names = time.Minute, 400_000
	}
	const bound = 2 << 20
	up, fetched := quickUpstream(t)
	p := launch(t, freePort(t), "errors\nclients\nnodecache 3600 {\nbytes 2MiB\nprefetch 0\n}\nhedge . "+up, "ready.test.")
	empty, err := p.RSS()
	if err != nil {
		t.Fatal(err)
	}
	hot := func(i int) string { return fmt.Sprintf("hot%d.flood.test.", i%200) }
	var again many
	again.ask(t, p.addr, 800, 8, hot, nil)

	stop := make(chan struct{})
	flooded := make(chan struct{})
	var flood many
	go func() {
		defer close(flooded)
		flood.ask(t, p.addr, 1<<30, 32, func(i int) string {
			if i%2 == 0 {
				return fmt.Sprintf("nx%d.flood.test.", i)
			}
			return fmt.Sprintf("r%d.flood.test.", i)
		}, stop)
	}()
	// Half of the time to fill, half to see.
	var sizes []int64
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for ; time.Since(began) < length || flood.good.Load() < names && time.Since(began) < 5*length; <-tick.C {
		again.ask(t, p.addr, 200, 4, hot, nil)
		size, err := p.RSS()
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, size)
	}
	close(stop)
	<-flooded
	third, last := sizes[len(sizes)/2:len(sizes)*3/4], sizes[len(sizes)*3/4:]
	before, after := slices.Max(third), slices.Max(last)
	t.Logf("flood: %s in %s; resident %d KiB empty, %d KiB in the third quarter, %d KiB in the last; %d fetched, hot names: %s", &flood, time.Since(began).Round(time.Millisecond), empty>>10, before>>10, after>>10, fetched.Load(), &again)
	if n := flood.good.Load(); n < names {
		t.Errorf("only %d names: the flood is none", n)
	}
	if after > before*11/10+2<<20 {
		t.Errorf("it grows: from %d to %d KiB", before>>10, after>>10)
	}
	// Go's collector lets the heap grow to twice what is in use.
	if most := empty + 2*bound + 24<<20; after > most {
		t.Errorf("resident %d KiB, want at most %d", after>>10, most>>10)
	}
	if n := fetched.Load(); n > 220 { // a fetch may be tried again
		t.Errorf("200 names that are asked all the time were fetched %d times: the flood evicts them", n)
	}
	if flood.wrong.Load() > 0 || again.wrong.Load() > 0 || again.lost.Load() > 0 {
		t.Errorf("flood: %s; hot names: %s", &flood, &again)
	}
}

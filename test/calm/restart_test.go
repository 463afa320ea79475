package calm_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/bench/program"
)

// TestRestart: a process that starts from a snapshot of 100,000 answers, while its
// upstream is away, is up within a second, and its first second answers 99 % of
// what the old one would have.
func TestRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("fills 100,000 answers: not with -short")
	}
	const entries, rate = 100_000, 5000
	name := func(i int) string { return fmt.Sprintf("n%d.restart.test.", i) }
	snapshot := filepath.Join(t.TempDir(), "cache")
	plugins := func(upstream string) string {
		return "errors\nclients\nnodecache 3600 {\nbytes 64MiB\nsnapshot " + snapshot + " 32MiB\n}\nhedge . " + upstream
	}
	up, _ := quickUpstream(t)
	port := freePort(t)
	old := launch(t, port, plugins(up), name(0))
	began := time.Now()
	var fill many
	fill.ask(t, old.addr, entries, 64, name, nil)
	filled := time.Since(began)
	if fill.good.Load() < entries*999/1000 {
		t.Fatalf("filling: %s", &fill)
	}
	began = time.Now()
	old.Stop()
	saved := time.Since(began)

	gone, err := program.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	fresh := launch(t, port, plugins(fmt.Sprintf("127.0.0.1:%d", gone)), name(0))
	// Spread over all of them, so that none is left out.
	all := newHerd(t, fresh.addr, rate, time.Second/rate, func(i int) string { return name(i * (entries / rate)) }).end(2 * time.Second)
	f := failures(all)
	missed := 0
	for _, n := range f {
		missed += n
	}
	t.Logf("filled in %s, saved in %s; up again after %s; of the %d questions of the first second, %.2f %% were answered",
		filled, saved, fresh.started, rate, 100-100*float64(missed)/rate)
	if missed > rate/100 {
		t.Errorf("not answered: %v", f)
	}
	most := 5 * time.Second
	if strict() {
		most = time.Second
	}
	if fresh.started > most {
		t.Errorf("up after %s, want %s", fresh.started, most)
	}
}

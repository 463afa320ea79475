package nodecache

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"

	"github.com/miekg/dns"
)

var (
	taken  = clients.Moment{Mono: int64(100 * time.Second), Ms: 1_700_000_000_000}
	blocks = map[string]uint16{"dns://.:53": 0, "dns://cluster.local.:53": 3}
)

func fullStore(t testing.TB, n int) *store {
	s := newStore(64 << 20)
	for i := range n {
		m := answer(t, fmt.Sprintf("n%d.example.", i), dns.TypeA, fmt.Sprintf("n%d.example. 300 IN A 192.0.2.1", i), fmt.Sprintf("n%d.example. 300 IN A 192.0.2.2", i))
		e := entryOf(t, m, wide)
		e.stored, e.hold = taken.Mono-int64(10*time.Second), 600
		if i%3 == 0 {
			e.block = 3
		}
		s.put(e, 0)
	}
	return s
}

func TestSnapshot(t *testing.T) {
	b := encode(fullStore(t, 300), blocks, 1<<20, taken)
	for _, c := range []struct {
		what     string
		later    time.Duration
		known    map[string]uint16
		want     int
		freshFor int64 // seconds
	}{
		{"at once", 0, blocks, 300, 290},
		{"later", 4 * time.Minute, blocks, 300, 50},
		{"when they are stale", 10 * time.Minute, blocks, 300, -310},
		{"when they are gone", time.Hour, blocks, 0, 0},
		{"other numbers of blocks", 0, map[string]uint16{"dns://.:53": 7}, 200, 290},
		{"a clock that was put back", -time.Hour, blocks, 300, 290},
	} {
		t.Run(c.what, func(t *testing.T) {
			now := clients.Moment{Mono: int64(time.Second), Ms: taken.Ms + c.later.Milliseconds()}
			var got []*entry
			n, err := decode(b, c.known, now, func(e *entry) { got = append(got, e) })
			if err != nil || n != c.want || len(got) != c.want {
				t.Fatalf("%d entries, %v", n, err)
			}
			for _, e := range got {
				left := (e.stored + int64(e.ttl)*int64(time.Second) - now.Mono) / int64(time.Second)
				if left != c.freshFor || e.hold != 600 || e.spinN != 2 {
					t.Fatalf("fresh for %d s, want %d: %+v", left, c.freshFor, e)
				}
				if _, known := c.known["dns://cluster.local.:53"]; !known && e.block != 7 {
					t.Fatalf("block %d", e.block)
				}
				name, _, _ := dns.UnpackDomainName(e.name(), 0)
				m, err := e.message(new(dns.Msg).SetQuestion(name, dns.TypeA), aging{})
				if err != nil || len(m.Answer) != 2 {
					t.Fatal(err, m)
				}
			}
		})
	}
	small := encode(fullStore(t, 300), blocks, 4096, taken)
	if n, err := decode(small, blocks, taken, func(*entry) {}); err != nil || n == 0 || n > 60 || len(small) > 4096 {
		t.Errorf("bounded to 4096 bytes: %d entries in %d bytes, %v", n, len(small), err)
	}
}

func TestHottestFirst(t *testing.T) {
	s := fullStore(t, 300)
	for i := range 10 {
		s.mu.Lock()
		e := s.get(keyFor2(t, fmt.Sprintf("n%d.example.", i*3), 3))
		s.answers.remove(e)
		s.answers.bytes += e.cost()
		s.answers.main.push(e)
		s.mu.Unlock()
	}
	b := encode(s, blocks, 3000, taken)
	var got []*entry
	if _, err := decode(b, blocks, taken, func(e *entry) { got = append(got, e) }); err != nil || len(got) < 10 {
		t.Fatal(err, len(got))
	}
	for _, e := range got[:10] {
		if e.block != 3 {
			t.Errorf("%q came before the hot ones", e.name())
		}
	}
}

func keyFor2(t testing.TB, name string, block uint16) *key {
	k := keyFor(t, name, dns.TypeA, 0)
	k.block = block
	return k
}

func TestDamagedSnapshots(t *testing.T) {
	good := encode(fullStore(t, 5), blocks, 1<<20, taken)
	for what, b := range map[string][]byte{
		"empty":       nil,
		"garbage":     []byte("what is this"),
		"cut":         good[:len(good)-20],
		"cut short":   good[:30],
		"a bit":       append(append(append([]byte{}, good[:80]...), good[80]^1), good[81:]...),
		"more behind": append(append([]byte{}, good...), 0),
		"too long":    encode(fullStore(t, 20000), blocks, 8<<20, taken),
		"version":     bytes.Replace(good, []byte("nodecache 1"), []byte("nodecache 2"), 1),
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cache")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			p := &process{store: newStore(1 << 20), blocks: blocks}
			p.restore(path, 1<<20)
			if a, d, _ := p.store.usage(); a.entries+d.entries != 0 {
				t.Error("it was read all the same")
			}
			aside, _ := filepath.Glob(path + ".damaged*")
			if _, err := os.Stat(path); err == nil || len(aside) != 1 {
				t.Errorf("it was not set aside: %v", aside)
			}
		})
	}
}

func TestSaveAndRestore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	p := &process{store: newStore(1 << 20), blocks: map[string]uint16{"x": 0}}
	p.newest.Store(&processOptions{snapshot: path, snapshotSize: 1 << 20})
	for i := range 100 {
		e := hold(t, p.store, fmt.Sprintf("n%d.example.", i), false)
		e.stored = clients.Now().Mono
	}
	p.save()
	q := &process{store: newStore(1 << 20), blocks: map[string]uint16{"x": 0}}
	q.restore(path, 1<<20)
	if a, _, _ := q.store.usage(); a.entries != 100 {
		t.Errorf("%d of 100 came back", a.entries)
	}
	if left, _ := filepath.Glob(path + ".new-*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestNoSnapshot: what is no file is not read, and stays.
func TestNoSnapshot(t *testing.T) {
	endless := filepath.Join(t.TempDir(), "endless")
	if err := os.Symlink("/dev/zero", endless); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{endless, t.TempDir()} {
		p := &process{store: newStore(1 << 20), blocks: blocks}
		p.restore(path, 1<<20)
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestColdStart is the figure for 100,000 entries.
func TestColdStart(t *testing.T) {
	if testing.Short() {
		t.Skip("100,000 entries: not with -short")
	}
	b := encode(fullStore(t, 100000), blocks, 64<<20, taken)
	began := time.Now()
	s := newStore(64 << 20)
	n, err := decode(b, blocks, taken, func(e *entry) { s.put(e, 0) })
	if took := time.Since(began); err != nil || n != 100000 || took > 5*time.Second {
		t.Errorf("%d entries in %s: %v", n, took, err)
	} else {
		t.Logf("%d entries (%d KiB) in %s", n, len(b)>>10, took)
	}
}

// FuzzSnapshot: what is read can be served.
func FuzzSnapshot(f *testing.F) {
	f.Add(encode(fullStore(f, 3), blocks, 1<<20, taken))
	f.Add([]byte(snapshotHead))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, c := range [][]byte{b, sealed(b)} {
			_, _ = decode(c, blocks, taken, func(e *entry) {
				name, _, err := dns.UnpackDomainName(e.name(), 0)
				if err != nil {
					t.Fatalf("%v: %q", err, e.name())
				}
				r := new(dns.Msg).SetQuestion(name, e.qtype)
				r.SetEdns0(4096, true)
				_, _ = e.message(r, aging{}) // RDATA is not looked at before; it must not panic
			})
		}
	})
}

// sealed gives b a head and a checksum that are right.
func sealed(b []byte) []byte {
	b = append([]byte(snapshotHead), strings.TrimPrefix(string(b), snapshotHead)...)
	if len(b) >= len(snapshotHead)+8 {
		b = b[:len(b)-8]
	}
	return appendSum(b)
}

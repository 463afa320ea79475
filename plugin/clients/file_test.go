package clients

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func filled(n int) (*Table, *clock) {
	table, c := NewTable(MinMax), newClock()
	for i := range n {
		for range 2 {
			tk := table.Query(Query{Addr: numbered(i)}, c.pass(time.Second))
			table.Answered(&tk, i%3, false, c.now)
		}
	}
	return table, c
}

func TestSaveAndRestore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seen")
	table, c := filled(20)
	if err := save(table, path); err != nil {
		t.Fatal(err)
	}
	other := NewTable(MinMax)
	restore(other, path)
	want, got := seenAll(t, table, c.now), seenAll(t, other, c.now)
	if len(got) != len(want) {
		t.Fatalf("%d clients restored, want %d", len(got), len(want))
	}
	for a := range want {
		if got[a] != want[a] {
			t.Errorf("%s: got %+v, want %+v", a, got[a], want[a])
		}
	}
	// Nothing else is left in the folder.
	if left, _ := filepath.Glob(path + "*"); len(left) != 1 {
		t.Errorf("left in the folder: %v", left)
	}
}

// A smaller table takes those seen last.
func TestRestoreIntoASmallerTable(t *testing.T) {
	big, c := NewTable(4*MinMax), newClock()
	for i := range 2 * MinMax {
		for range 2 {
			big.Query(Query{Addr: numbered(i)}, c.pass(time.Second))
		}
	}
	small := NewTable(MinMax)
	if n, err := small.Load(big.Save(c.now)); err != nil || n != MinMax {
		t.Fatalf("loaded %d: %v", n, err)
	}
	in := seenAll(t, small, c.now)
	for i := range 2 * MinMax {
		if got := in[numbered(i).String()].Address != ""; got != (i >= MinMax) {
			t.Errorf("client %d: in the table is %v", i, got)
		}
	}
}

func TestDamagedFileIsSetAside(t *testing.T) {
	table, c := filled(5)
	good := table.Save(c.now)
	flip := func(i int) []byte {
		b := bytes.Clone(good)
		b[i] ^= 1
		return b
	}
	for name, content := range map[string][]byte{
		"empty":         {},
		"short":         good[:len(good)-1],
		"long":          append(bytes.Clone(good), 0),
		"magic":         flip(0),
		"newer version": flip(8),
		"count":         flip(12),
		"a client":      flip(fileHeader + 20),
		"checksum":      flip(len(good) - 1),
		"text":          []byte("not a table of clients at all, but long enough to be one"),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "seen")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			fresh := NewTable(MinMax)
			restore(fresh, path)
			if n := fresh.Len(); n != 0 {
				t.Errorf("%d clients from a damaged file", n)
			}
			aside, _ := filepath.Glob(path + ".damaged*")
			if len(aside) != 1 {
				t.Fatalf("set aside: %v", aside)
			}
			if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(kept, content) {
				t.Errorf("what was set aside is not what was there: %v", err)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the damaged file is still in its place: %v", err)
			}
		})
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	restore(NewTable(MinMax), filepath.Join(dir, "none")) // the first start
	restore(NewTable(MinMax), dir)                        // a folder
	if left, _ := filepath.Glob(dir + "*"); len(left) != 1 {
		t.Errorf("the folder was set aside: %v", left)
	}
	if err := save(NewTable(MinMax), filepath.Join(dir, "no", "folder")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("saved into a folder that is not there: %v", err)
	}
}

// What is read could have been written: it reads back the same.
func FuzzSeenFile(f *testing.F) {
	table, c := filled(3)
	f.Add(table.Save(c.now))
	f.Add(NewTable(MinMax).Save(c.now))
	f.Add([]byte(fileMagic))
	f.Fuzz(func(t *testing.T, content []byte) {
		clients, err := decodeSeen(content)
		if err != nil {
			if !errors.Is(err, errDamaged) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		if again := encodeSeen(clients, 0); !bytes.Equal(again[fileHeader:len(again)-fileSum], content[fileHeader:len(content)-fileSum]) {
			t.Fatal("encoded again it differs")
		}
		fresh := NewTable(MinMax)
		if n, err := fresh.Load(content); err != nil || n != min(len(clients), MinMax) || fresh.Len() != n {
			t.Fatalf("loaded %d of %d: %v", n, len(clients), err)
		}
	})
}

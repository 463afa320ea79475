package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCacheFolderThatIsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cache")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(CacheEnv, file)
	if _, err := Build(t.Context(), t.Output()); err == nil || !strings.Contains(err.Error(), CacheEnv) {
		t.Errorf("Build: %v, want an error that names %s", err, CacheEnv)
	}
	if built, err := Built(); err == nil && built {
		t.Error("Built says yes")
	}
	if exists(filepath.Join(file, "program")) {
		t.Error("there is said to be a file below a file")
	}
}

// TestProgramIsMissing takes each program away from a cache folder that has all.
func TestProgramIsMissing(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(CacheEnv, cache)
	var files []string
	for _, g := range groups() {
		dir, err := g.dir(cache)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name := range g.packages {
			file := filepath.Join(dir, name)
			if err := os.WriteFile(file, []byte("program"), 0o755); err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
	}
	if built, err := Built(); err != nil || !built {
		t.Fatalf("Built with all programs: %t, %v", built, err)
	}
	for _, file := range files {
		aside := file + ".aside"
		if err := os.Rename(file, aside); err != nil {
			t.Fatal(err)
		}
		want := "rm -r " + filepath.Dir(file)
		if _, err := Built(); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), want) {
			t.Errorf("Built without %s: %v, want an error that names it and %q", file, err, want)
		}
		// Not all are missing, so nothing long is built.
		if _, err := Build(t.Context(), t.Output()); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("Build without %s: %v", file, err)
		}
		if err := os.Rename(aside, file); err != nil {
			t.Fatal(err)
		}
	}
}

// Under CI, what is missing is a mistake; not to be root is not.
func TestMistake(t *testing.T) {
	other := errors.New("a package is missing")
	for _, c := range []struct {
		err  error
		ci   bool
		want bool
	}{
		{other, true, true}, {other, false, false},
		{errNotRoot, true, false}, {errNotRoot, false, false}, {fmt.Errorf("here: %w", errNotRoot), true, false},
	} {
		if got := mistake(c.err, c.ci); got != c.want {
			t.Errorf("mistake(%v, %t) = %t, want %t", c.err, c.ci, got, c.want)
		}
	}
}

func TestStatic(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	static, err := Compile(t.Context(), t.TempDir(), "firebreakdns.io/firebreak/test/cluster/lab/pause")
	if err != nil {
		t.Fatal(err)
	}
	if err := Static(static); err != nil {
		t.Errorf("a static program: %v", err)
	}
	for file, want := range map[string]string{
		script: "no program for Linux", filepath.Dir(script): "no program for Linux", "/nonexistent": "no such file",
		"/bin/sh": "not static",
	} {
		if err := Static(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Static(%s): %v, want an error with %q", file, err, want)
		}
	}
}

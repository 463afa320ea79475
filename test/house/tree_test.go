package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module is this module's path.
const module = "firebreakdns.io/firebreak"

// root is the tree that is tested.
var root = filepath.Join("..", "..")

// files are the tree's files with this suffix, as paths from its root.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata" || name == "node_modules") {
			return fs.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, suffix) {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found = append(found, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("No %s file in the tree: the test looks at the wrong place", suffix)
	}
	return found
}

// read is a file's content, by its path from the root.
func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// plugins are the names of the plugins of ours.
func plugins(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, "plugin"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "pkg" && hasGo(t, filepath.Join("plugin", e.Name())) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		t.Fatal("No plugin in the tree: the test looks at the wrong place")
	}
	return names
}

func hasGo(t *testing.T, dir string) bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

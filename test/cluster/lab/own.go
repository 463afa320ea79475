package lab

import (
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// sources holds the small programs of our own that a cluster needs. They are
// built from here, not from the work tree, so that a test binary needs none.
//
//go:embed keeper/*.go pause/*.go cgroup/*.go spec/*.go
var sources embed.FS

// home is this package's folder in the module that it is part of.
const (
	home   = "test/cluster/lab"
	module = "firebreakdns.io/firebreak"
)

// ownPrograms names the programs of our own: keeper is the outer and the first
// process of every machine, pause is that of every pod.
func ownPrograms() []string { return []string{"keeper", "pause"} }

// buildOwn returns the file of a program of our own, building it if needed.
func buildOwn(ctx context.Context, cache, name string) (string, error) {
	files, err := fs.Glob(sources, "*/*.go")
	if err != nil {
		return "", err
	}
	key := sha256.New()
	fmt.Fprintln(key, toolchain())
	contents := map[string][]byte{"go.mod": []byte("module " + module + "\n\ngo 1.26.0\n")}
	for _, file := range files {
		content, err := sources.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(key, file, len(content))
		key.Write(content)
		contents[path.Join(home, file)] = content
	}
	dir := filepath.Join(cache, fmt.Sprintf("%s-%.8x", name, key.Sum(nil)))
	return filepath.Join(dir, name), once(ctx, dir, func(tmp string) error {
		src := filepath.Join(tmp, "src")
		for file, content := range contents {
			to := filepath.Join(src, file)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(to, content, 0o644); err != nil {
				return err
			}
		}
		build := goCommand(ctx, src, "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(tmp, name), "./"+path.Join(home, name))
		if _, err := output(build); err != nil {
			return err
		}
		return os.RemoveAll(src)
	})
}

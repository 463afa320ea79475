package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Helm is the file of the helm program, which is built into the cache folder as
// the programs of a cluster are, when it is first asked for: a minute or two.
// Progress goes to out, which may be nil.
func Helm(ctx context.Context, out io.Writer) (string, error) {
	if out == nil {
		out = io.Discard
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("the cache folder: %w; set %s to a folder that can be written to", err, CacheEnv)
	}
	g := helm()
	dir, err := g.build(ctx, cache, out)
	if err != nil {
		return "", fmt.Errorf("building %s %s: %w", g.module, g.version, err)
	}
	programs := Programs{"helm": filepath.Join(dir, "helm")}
	return programs["helm"], programs.complete()
}

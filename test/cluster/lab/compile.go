package lab

import (
	"context"
	"os/exec"
	"path/filepath"
)

// Compile builds a main package of the calling test's own module into a static
// program in dir, for Binary to make an image of. It returns the file.
func Compile(ctx context.Context, dir, pkg string) (string, error) {
	file := filepath.Join(dir, binaryName(pkg))
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", file, pkg)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	_, err := output(cmd)
	return file, err
}

package demo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs that the demo runs.
const (
	programServer     = "coredns"
	programController = "firebreak-controller"
)

// find looks for a program beside this one, then in PATH. A coredns in PATH may
// be a stock one, which the demo would notice soon enough: it knows no drill.
func find(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			beside := filepath.Join(filepath.Dir(self), name)
			if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return beside, nil
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("no program %s beside this one nor in PATH: run `make build`, and then bin/firebreak demo", name)
	}
	return filepath.Abs(path)
}

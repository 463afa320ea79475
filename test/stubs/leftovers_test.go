//go:build linux

package stubs

import (
	"os"
	"path/filepath"
	"time"
)

// tempPrefix of every folder that a run makes.
const tempPrefix = "fbstubs"

// longest is how long no run takes: an older folder is one that a killed run left.
const longest = time.Hour

// tempDir makes a folder, with a path that is short enough for sockets in it, and
// removes those that killed runs left.
func tempDir() (string, error) {
	old, err := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"-*"))
	if err != nil {
		return "", err
	}
	for _, dir := range old {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > longest {
			_ = os.RemoveAll(dir)
		}
	}
	return os.MkdirTemp("", tempPrefix+"-")
}

package lab

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Logs is the folder with a folder per machine, whose log folder has a file per
// program, and below pods one per container. It goes when the cluster does; see
// KeepLogs.
func (c *Cluster) Logs() string { return filepath.Join(c.dir, "machines") }

// KeepLogs copies the logs to dir, which it makes.
func (c *Cluster) KeepLogs(dir string) error {
	return filepath.WalkDir(c.Logs(), func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a pod went meanwhile
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(c.Logs(), name)
		if err != nil {
			return err
		}
		// MACHINE/log/...
		parts := strings.Split(rel, string(filepath.Separator))
		if len(parts) > 1 && parts[1] != "log" {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		return copyFile(name, filepath.Join(dir, rel))
	})
}

func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("keeping a log: %w", err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

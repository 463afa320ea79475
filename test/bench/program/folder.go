package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Folder makes a folder for a run, whose name says whose it is, after it has
// removed those of runs that were killed: each holds a whole DNS server.
func Folder(name string) (string, error) {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), name+"-*-*"))
	if err != nil {
		return "", err
	}
	for _, dir := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), name+"-"), "-")
		if pid, err := strconv.Atoi(owner); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			if err := os.RemoveAll(dir); err != nil {
				return "", err
			}
		}
	}
	return os.MkdirTemp("", fmt.Sprintf("%s-%d-", name, os.Getpid()))
}

package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lock makes a state folder ours until the file is closed or the process ends,
// however it ends: two controllers on one folder would each undo the other.
func lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path) // says who, if it can be read
		f.Close()
		return nil, fmt.Errorf("state folder %s: another controller uses it (process %s): stop that one, or give this one a folder of its own", dir, strings.TrimSpace(string(holder)))
	}
	// Who holds it is for people to read. A full disk must not keep a controller
	// from starting that has a drill to put back.
	us := fmt.Appendf(nil, "%d\n", os.Getpid())
	if _, err := f.WriteAt(us, 0); err == nil {
		_ = f.Truncate(int64(len(us)))
	}
	return f, nil
}

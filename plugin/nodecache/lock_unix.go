//go:build unix

package nodecache

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long another process may hold the lock; it has one file to
// write.
const lockWait = 5 * time.Second

// lock keeps other processes from a file: two generations of a server share its
// folder while the one takes over from the other. The lock is of the process, so
// that none is left behind.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(lockWait); ; time.Sleep(10 * time.Millisecond) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if time.Now().After(until) {
			_ = f.Close()
			return nil, fmt.Errorf("another process has locked %s for %s: %w", f.Name(), lockWait, err)
		}
	}
}

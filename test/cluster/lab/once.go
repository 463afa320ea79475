package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// once makes the folder or file dst with fill, unless it is there already. Of
// several callers, in one process or many, one fills and the others wait. dst
// appears whole or not at all: fill works in a temporary folder, and what a
// killed fill left there is removed by the next.
func once(ctx context.Context, dst string, fill func(tmp string) error) error {
	if exists(dst) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, dst+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if exists(dst) {
		return nil
	}
	tmp := dst + ".tmp"
	if err := errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o755)); err != nil {
		return err
	}
	if err := fill(tmp); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return os.Rename(tmp, dst)
}

// lockFile waits until it holds the lock on a file, which it creates. The
// kernel drops the lock when the holder ends, however it ends.
func lockFile(ctx context.Context, name string) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("waiting for the lock on %s: %w", name, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// exists says whether there is a file. What cannot be looked at counts as not
// there: whoever then makes it is told why that does not work either.
func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// nameLimit is how long another process may take to start or end a cluster
// before it counts as stuck.
const nameLimit = time.Minute

// lockName waits until no other process starts or ends a cluster of that name,
// and keeps others from it until unlock, which may be called again. What it
// guards has one name on the whole machine, whatever the state folder: so the
// lock is the name of a socket, which is as global, goes with its process and
// leaves no file.
func lockName(ctx context.Context, name string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, nameLimit, fmt.Errorf("another process has been starting or ending it for %s: see which with ps, and end it", nameLimit))
	defer cancel()
	for {
		socket, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: "@" + prefix + "cluster/" + name})
		if err == nil {
			return sync.OnceFunc(func() { socket.Close() }), nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("locking the cluster name %s: %w", name, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the cluster name %s: %w", name, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

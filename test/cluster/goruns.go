package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// untilGoEnds is a context that ends when the go command does that runs this
// program. Whoever kills `go run` means the program, which would go on alone.
// Other parents may end: a shell does, and leaves a program in the background.
func untilGoEnds(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(nil) }
	parent := os.Getppid()
	program, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(parent), "comm"))
	if err != nil || strings.TrimSpace(string(program)) != "go" {
		return ctx, stop
	}
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if os.Getppid() != parent {
				cancel(errors.New("go run was killed"))
				return
			}
		}
	}()
	return ctx, stop
}

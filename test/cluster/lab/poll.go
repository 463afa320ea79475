package lab

import (
	"context"
	"fmt"
	"time"
)

// poll tries until try returns nil, or until limit has passed: then the error
// says what was waited for, and why the last try failed.
func poll(ctx context.Context, limit time.Duration, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	started := time.Now()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		// Once the time is up, a try fails for that reason alone: keep what
		// the one before said.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s for %s: %w", time.Since(started).Round(time.Second), what, last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

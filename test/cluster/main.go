// Command cluster runs a real Kubernetes on this machine, for tests and for
// people. See docs/test-cluster.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// What the program returns when its caller made a mistake, and when it was
// interrupted, as shells have it.
const (
	exitMisuse      = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if err == nil {
		return
	}
	var ended *exec.ExitError
	var wrong misuse
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "cluster: interrupted:", err)
		os.Exit(exitInterrupted)
	case errors.As(err, &commandFailed{}) && errors.As(err, &ended) && ended.ExitCode() > 0:
		// It has said why itself.
		os.Exit(ended.ExitCode())
	}
	fmt.Fprintln(os.Stderr, "cluster:", err)
	if errors.As(err, &wrong) {
		os.Exit(exitMisuse)
	}
	os.Exit(1)
}

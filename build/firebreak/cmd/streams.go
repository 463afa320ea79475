package cmd

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Streams are a command's surroundings.
type Streams struct {
	Args []string // with the program's name first
	In   io.Reader
	Out  io.Writer
	Err  io.Writer
	Env  func(string) string
}

// System are the real ones.
func System() Streams {
	return Streams{Args: os.Args, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}
}

// interruptible ends with the first Ctrl-C or termination; a second one kills.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// terminal reports whether a stream is one.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// person is where somebody can be asked who answers on standard input; nil
// where nobody sits. Like sudo and ssh it asks at the terminal itself, should
// standard error be a file.
func (s Streams) person() io.Writer {
	if !terminal(s.In) {
		return nil
	}
	if terminal(s.Err) {
		return s.Err
	}
	tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0) // open until the program ends
	if err != nil {
		return nil
	}
	return tty
}

// size of the terminal that a stream is.
func size(stream any) (width, height int) {
	if f, ok := stream.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return 80, 24
}

// pause waits, and reports whether it waited to the end.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

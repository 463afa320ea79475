package drill

import (
	"context"
	"errors"
	"sync"
	"time"
)

// maxHeld is how many queries wait at once, each with its goroutine and its
// stream (some 20 KiB): more clients than that are told REFUSED.
const maxHeld = 4096

// lateClient is how long a query is kept after its client's deadline. The
// deadline came with the query (gRPC), and the client's own timer may fire a
// little later than ours: what the server sends in between, the client would see.
const lateClient = time.Second

// held is how a wait ended.
type held int

const (
	heldGaveUp  held = iota // the client went away
	heldEnded               // the drill did
	heldLeaving             // this Corefile is being replaced
	heldFull                // there was no room to wait
)

// hold keeps a query waiting, as a dead node would, until its client gives up or
// the drill ends. A server that stops waits for its requests, so those of a
// Corefile that is being replaced may not wait.
func (e *Engine) hold(ctx context.Context, r *Running, leaving <-chan struct{}) held {
	if !e.room() {
		return heldFull
	}
	heldNow.Inc()
	defer func() {
		e.held.Add(-1)
		heldNow.Dec()
	}()
	select {
	case <-leaving: // first: with several ready, select would choose any
		return heldLeaving
	default:
	}
	gone := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case <-gone:
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return heldGaveUp
			}
			gone, late = nil, time.After(lateClient)
		case <-late:
			return heldGaveUp
		case <-r.done:
			return heldEnded
		case <-leaving:
			return heldLeaving
		}
	}
}

// room takes a place, if there is one.
func (e *Engine) room() bool {
	for {
		n := e.held.Load()
		if n >= maxHeld {
			return false
		}
		if e.held.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Held is how many queries are kept waiting.
func (e *Engine) Held() int { return int(e.held.Load()) }

// leave says when a Corefile is being replaced. That can be taken back.
type leave struct {
	mu   sync.Mutex
	ch   chan struct{}
	gone bool
}

func newLeave() *leave { return &leave{ch: make(chan struct{})} }

func (l *leave) soon() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ch
}

func (l *leave) now() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gone {
		l.gone = true
		close(l.ch)
	}
}

func (l *leave) stay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		l.gone = false
		l.ch = make(chan struct{})
	}
}

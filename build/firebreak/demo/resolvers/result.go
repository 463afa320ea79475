package resolvers

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Resolver looks names up.
type Resolver interface {
	Lookup(ctx context.Context, name string) Result
}

// Result is one lookup, as the client saw it.
type Result struct {
	Name   string
	Began  time.Time
	Ended  time.Time
	Sent   []Sent    // every query, in order
	Answer time.Time // when both questions were answered; zero: they were not
	By     netip.AddrPort
}

// Sent is one query.
type Sent struct {
	At time.Time
	To netip.AddrPort
}

// Answered reports whether the lookup came to an end that an application can use.
func (r Result) Answered() bool { return !r.Answer.IsZero() }

// journal collects a lookup's queries; resolved's two transactions share one.
type journal struct {
	mu sync.Mutex
	r  Result
}

func begin(name string) *journal { return &journal{r: Result{Name: name, Began: time.Now()}} }

func (j *journal) sent(to netip.AddrPort) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.r.Sent = append(j.r.Sent, Sent{At: time.Now(), To: to})
}

// end is the whole lookup; by is who answered last, if anybody did.
func (j *journal) end(by netip.AddrPort, answered bool) Result {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.r.Ended = time.Now()
	if answered {
		j.r.Answer, j.r.By = j.r.Ended, by
	}
	return j.r
}

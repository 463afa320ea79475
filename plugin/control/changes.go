package control

import "sync"

// changes is the process-wide bell that Changed rings.
var changes = newBell()

// bell wakes everybody who waits. Rings that nobody waited for are one: what
// matters is that the state is read after the last of them.
type bell struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next ring
}

func newBell() *bell { return &bell{next: make(chan struct{})} }

// announce rings.
func (b *bell) announce() {
	b.mu.Lock()
	close(b.next)
	b.next = make(chan struct{})
	b.mu.Unlock()
}

// wait is closed at the next ring. To miss none, take it before reading what
// the ring is about.
func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

package wire

import "sync"

// hold keeps the process's groups from having packets and connections steered to
// them. It belongs to the process, as the groups do.
var hold struct {
	mu  sync.Mutex
	end chan struct{} // closed by Release; nil: nothing is held back
}

// HoldBack leaves what comes to the addresses that are open to whom it goes now: an
// older process that shares them and is known to answer, which this one is not yet.
// Until Release.
func HoldBack() {
	hold.mu.Lock()
	defer hold.mu.Unlock()
	if hold.end == nil {
		hold.end = make(chan struct{})
	}
}

// Release has packets and connections come here from now on.
func Release() {
	hold.mu.Lock()
	defer hold.mu.Unlock()
	if hold.end != nil {
		close(hold.end)
		hold.end = nil
	}
}

// heldBack is closed when nothing is held back any more; nil: nothing is.
func heldBack() <-chan struct{} {
	hold.mu.Lock()
	defer hold.mu.Unlock()
	return hold.end
}

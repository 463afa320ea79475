package exchange

import (
	"errors"
	"syscall"
)

// Local says whether an error is of this machine: what was to be asked never left
// it, and that is nothing to hold against the server.
func Local(err error) bool {
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrBusy) {
		return true
	}
	for _, own := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EAGAIN} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

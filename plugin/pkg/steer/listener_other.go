//go:build !linux

package steer

import (
	"errors"
	"net"
)

// Listener is a plain one: only Linux lets the choice be steered.
type Listener struct{ *net.TCPListener }

// Listen listens at a TCP address.
func Listen(addr string) (*Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Listener{l.(*net.TCPListener)}, nil
}

// Take fails.
func (*Listener) Take(<-chan struct{}) error { return errors.ErrUnsupported }

// Taken is false.
func (*Listener) Taken() bool { return false }

// Leave does nothing.
func (*Listener) Leave() error { return nil }

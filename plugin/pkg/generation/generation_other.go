//go:build !linux

package generation

import (
	"encoding/json"
	"errors"
	"time"
)

// Peer is another living member: there is none but on Linux.
type Peer struct {
	ID      string
	PID     int
	Since   time.Duration
	Newer   bool
	Claims  bool
	Version int
	Facts   map[string]json.RawMessage
}

// Member is this process in a group: there is none but on Linux.
type Member struct{}

// Join fails: abstract sockets are Linux's.
func Join(string) (*Member, error) {
	return nil, errors.New("generations need Linux, whose abstract sockets they meet at")
}

// ID is empty.
func (*Member) ID() string { return "" }

// Changed never has a value.
func (*Member) Changed() <-chan struct{} { return nil }

// Claim does nothing.
func (*Member) Claim() {}

// Owner is false.
func (*Member) Owner() bool { return false }

// Peers are none.
func (*Member) Peers() []Peer { return nil }

// Strangers are none.
func (*Member) Strangers() int { return 0 }

// Publish does nothing.
func (*Member) Publish(string, any) error { return nil }

// Leave does nothing.
func (*Member) Leave() {}

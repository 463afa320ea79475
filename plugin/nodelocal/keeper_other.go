//go:build !linux

package nodelocal

import (
	"errors"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

var node = &keeper{}

// allReasons are none: nothing is captured here.
var allReasons []string

// keeper has nothing but on Linux.
type keeper struct{}

func (*keeper) prepare(*wish) error {
	return errors.New("the node's addresses and rules are Linux's: remove nodelocal from the Corefile here")
}

func (*keeper) want([]*wish) {}

func (*keeper) serving() {}

func (*keeper) ready() bool { return false }

func (*keeper) status() *protocol.NodeLocalState { return nil }

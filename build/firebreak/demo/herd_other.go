//go:build !linux

package demo

import (
	"errors"
	"syscall"
)

func endWithParent() *syscall.SysProcAttr { return nil }

// supported says why the demo cannot run here.
func supported() error {
	return errors.New("the demo needs Linux: only there is all of 127.0.0.0/8 loopback without being set up. Run it in a container or a virtual machine")
}

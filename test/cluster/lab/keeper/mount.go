package main

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mounting %s %s on %s (%s): %w", kind, source, target, data, err)
	}
	return nil
}

// What mount_setattr(2) takes. Unlike mount(2), it reaches the mounts below and
// leaves their other attributes as they are.
const (
	sysMountSetattr = 442
	atFDCWD         = -100
	atRecursive     = 0x8000
	attrReadOnly    = 1
)

// setReadOnly says whether a mount, and those below it, can be written to: by
// this machine, since the mounts are its own.
func setReadOnly(target string, readOnly bool) error {
	attr := struct{ set, clear, propagation, userNamespace uint64 }{clear: attrReadOnly}
	if readOnly {
		attr.set, attr.clear = attrReadOnly, 0
	}
	name, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	at := atFDCWD
	_, _, failed := syscall.Syscall6(sysMountSetattr, uintptr(at), uintptr(unsafe.Pointer(name)), atRecursive,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if failed == syscall.ENOSYS {
		return fmt.Errorf("protecting %s: this needs Linux 5.12 or later", target)
	}
	if failed != 0 {
		return &os.PathError{Op: "mount_setattr", Path: target, Err: failed}
	}
	return nil
}

package demo

import "syscall"

// endWithParent has the kernel kill the process when the thread that started it
// ends. It is in a group of its own, so that Ctrl-C reaches the demo alone, which
// then ends it in order.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// supported says why the demo cannot run here.
func supported() error { return nil }

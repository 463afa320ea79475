package control

import (
	"fmt"
	"net"
	"os"
)

// socketNew is the suffix under which a socket is made before it gets its name.
const socketNew = ".new"

// socketMode keeps everybody out but the owner and root.
const socketMode = 0o600

// unixListener takes its file away when it is closed, if it still is its own.
type unixListener struct {
	*net.UnixListener
	path string
	made os.FileInfo
}

// listenUnix makes the socket under another name, closes it to others and only
// then gives it its name: there is no moment in which others could open it, and
// a file that a dead process left behind is replaced.
func listenUnix(path string) (net.Listener, error) {
	if old, err := os.Lstat(path); err == nil {
		if old.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("%s is there and is no socket: remove it, or use another path", path)
		}
		if c, err := net.Dial("unix", path); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("another process answers on %s: stop it, or use another path", path)
		}
	}
	fresh := path + socketNew
	if err := os.Remove(fresh); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false) // it would take away the name it was made under
	l := &unixListener{UnixListener: ln, path: path}
	if err := l.settle(fresh); err != nil {
		_ = ln.Close()
		_ = os.Remove(fresh)
		return nil, err
	}
	return l, nil
}

func (l *unixListener) settle(fresh string) (err error) {
	if err = os.Chmod(fresh, socketMode); err != nil {
		return err
	}
	if l.made, err = os.Lstat(fresh); err != nil {
		return err
	}
	return os.Rename(fresh, l.path)
}

// Close stops listening and removes the file.
func (l *unixListener) Close() error {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.made) {
		_ = os.Remove(l.path)
	}
	return l.UnixListener.Close()
}

// Addr is the path that it is known by.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

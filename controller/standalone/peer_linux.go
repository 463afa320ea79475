package standalone

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peerName is the user at the other end of a unix socket, for audit lines.
func peerName(conn net.Conn) string {
	name := "local"
	if u, ok := conn.(*net.UnixConn); ok {
		if raw, err := u.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) {
				if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
					name = fmt.Sprintf("uid:%d", cred.Uid)
				}
			})
		}
	}
	return name
}

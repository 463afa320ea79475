//go:build linux

package generation

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// order is a member's place: when it joined, on the clock that all processes of a
// machine share, and its id where that is the same.
type order struct {
	since time.Duration // since the machine started
	id    string
}

func (o order) newer(than order) bool {
	return cmp.Or(cmp.Compare(o.since, than.since), cmp.Compare(o.id, than.id)) > 0
}

// now is the time since the machine started.
func now() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0 // Linux has it since 2.6.39
	}
	return time.Duration(t.Nano())
}

// base begins the names of a group's sockets. The version is that of the names and
// of what is said first; what is said later has its own.
func base(group string) string { return "@firebreak/1/" + group + "/" }

func (o order) socket(group string) string {
	return base(group) + fmt.Sprintf("%020d-%s", o.since, o.id)
}

// placeOf reads a socket's name.
func placeOf(group, socket string) (o order, ok bool) {
	rest, ok := strings.CutPrefix(socket, base(group))
	if !ok {
		return o, false
	}
	since, id, ok := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(since, 10, 64)
	if !ok || err != nil || n < 0 || id == "" {
		return o, false
	}
	return order{time.Duration(n), id}, true
}

// acceptsConnections is the flag of a listening socket in /proc/net/unix.
const acceptsConnections = 0x10000

// sockets are the names of the group's sockets in this network namespace.
func sockets(group string) ([]string, error) {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return socketsIn(f, group)
}

func socketsIn(r io.Reader, group string) (found []string, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		// Num RefCount Protocol Flags Type St Inode Path
		words := strings.Fields(lines.Text())
		if len(words) != 8 {
			continue
		}
		flags, err := strconv.ParseUint(words[3], 16, 64)
		if err != nil || flags&acceptsConnections == 0 {
			continue
		}
		if _, ok := placeOf(group, words[7]); ok {
			found = append(found, words[7])
		}
	}
	return found, lines.Err()
}

// peerCred is who is at the other end of a connection.
func peerCred(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, failed
}

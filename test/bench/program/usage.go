package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is the CPU time that processes have used.
type Usage struct {
	Total        time.Duration // exact
	User, System time.Duration // in ticks of the kernel: their proportion is what counts
}

// Sub is what was used since an earlier reading.
func (u Usage) Sub(before Usage) Usage {
	return Usage{Total: u.Total - before.Total, User: u.User - before.User, System: u.System - before.System}
}

// tick is the unit of /proc/PID/stat, the same on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// Usage of the process, with its threads, its living children and those that
// it has waited for.
func (p *Process) Usage() (u Usage, err error) {
	pids, err := tree(p.PID())
	if err != nil {
		return u, err
	}
	for _, pid := range pids {
		st, err := readStat(pid)
		if err != nil {
			continue // ended meanwhile: then its parent has its time
		}
		// utime and stime, to the nanosecond: /proc has them in ticks of 10 ms, of
		// which there are few in a run at a low rate.
		var t unix.Timespec
		if err := unix.ClockGettime(processClock(pid), &t); err != nil {
			continue
		}
		u.Total += time.Duration(t.Nano()) + st.children
		u.User += st.user
		u.System += st.system
	}
	return u, nil
}

// processClock is the CPU clock of a process, as clock_getcpuclockid(3) makes it.
func processClock(pid int) int32 { return int32(^pid<<3 | 2) } //nolint:gosec // PIDs are 22 bits

// RSS is the resident memory of the process and its children, in bytes.
func (p *Process) RSS() (int64, error) {
	pids, err := tree(p.PID())
	if err != nil {
		return 0, err
	}
	var total int64
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(b))
		if len(fields) < 2 {
			return 0, fmt.Errorf("statm of %d: %q", pid, b)
		}
		pages, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, err
		}
		total += pages * int64(os.Getpagesize())
	}
	return total, nil
}

// stat is what we need of /proc/PID/stat.
type stat struct {
	parent       int
	user, system time.Duration // own and of children that were waited for
	children     time.Duration
}

func readStat(pid int) (s stat, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, err
	}
	return parseStat(string(b))
}

func parseStat(line string) (s stat, err error) {
	// The name, in brackets, may hold anything, brackets too.
	end := strings.LastIndexByte(line, ')')
	fields := strings.Fields(line[end+1:])
	if end < 0 || len(fields) < 15 {
		return s, fmt.Errorf("stat of a process: %q", line)
	}
	number := func(i int) int64 { // i as proc(5) counts, from 1
		n, e := strconv.ParseInt(fields[i-3], 10, 64)
		if e != nil {
			err = e
		}
		return n
	}
	s.parent = int(number(4))
	cuser, csystem := time.Duration(number(16))*tick, time.Duration(number(17))*tick
	s.user = time.Duration(number(14))*tick + cuser
	s.system = time.Duration(number(15))*tick + csystem
	s.children = cuser + csystem
	return s, err
}

// tree is a process and its descendants.
func tree(root int) ([]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if st, err := readStat(pid); err == nil {
			children[st.parent] = append(children[st.parent], pid)
		}
	}
	found := []int{root}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found, nil
}

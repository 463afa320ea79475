package demo

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// herd are the demo's processes. They are started from one thread that lives as
// long as they do: the kernel kills them when that thread ends (endWithParent),
// which is what makes them end with the demo however it ends.
type herd struct {
	logs   string // a folder
	start  chan *member
	ended  chan struct{} // closed when the thread has ended
	mu     sync.Mutex
	all    []*member
	closed bool
}

// member is one process.
type member struct {
	name string
	cmd  *exec.Cmd
	log  string
	err  chan error    // of starting it
	done chan struct{} // closed when it has ended
}

func newHerd(logs string) *herd {
	h := &herd{logs: logs, start: make(chan *member), ended: make(chan struct{})}
	go func() {
		defer close(h.ended)
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		for m := range h.start {
			m.err <- m.cmd.Start()
		}
	}()
	return h
}

// run starts a process whose output goes to a log of its name.
func (h *herd) run(name, program string, env []string, args ...string) (*member, error) {
	path := filepath.Join(h.logs, name+".log")
	out, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the process has its own
	m := &member{name: name, log: path, err: make(chan error, 1), done: make(chan struct{}), cmd: exec.Command(program, args...)}
	m.cmd.Stdout, m.cmd.Stderr, m.cmd.Dir = out, out, h.logs
	m.cmd.Env = append(os.Environ(), env...)
	m.cmd.SysProcAttr = endWithParent()

	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errors.New("the demo is ending")
	}
	h.start <- m
	if err := <-m.err; err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	h.all = append(h.all, m)
	go func() {
		_ = m.cmd.Wait()
		close(m.done)
	}()
	return m, nil
}

// fallen is the first process that has ended by itself, nil where all live.
func (h *herd) fallen() *member {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.all {
		select {
		case <-m.done:
			return m
		default:
		}
	}
	return nil
}

// stop ends all processes, the last one started first, and waits for them.
func (h *herd) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	for i := len(h.all) - 1; i >= 0; i-- {
		m := h.all[i]
		_ = m.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-m.done:
		case <-time.After(2 * time.Second): // it may be draining; a demo has nothing to drain for
			_ = m.cmd.Process.Kill()
			<-m.done
		}
	}
	close(h.start)
	<-h.ended
}

// lastWords are the end of a process's log.
func (m *member) lastWords() string {
	b, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(bytes.TrimSpace(b)), "\n")
	return "    " + strings.Join(lines[max(len(lines)-8, 0):], "\n    ")
}

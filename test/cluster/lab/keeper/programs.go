package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"firebreakdns.io/firebreak/test/cluster/lab/spec"
)

// pause is how long a program that ended stays down, as with systemd's
// RestartSec= in the units that distributions ship for the kubelet.
const pause = time.Second

// programs runs the machine's programs and buries every process of it.
type programs struct {
	mu      sync.Mutex
	known   map[string]spec.Program
	running map[int]string
	// wanted are those that run, or are to run again.
	wanted map[string]bool
	// born wakes reap when there is a child again.
	born chan struct{}
}

func newPrograms(list []spec.Program) *programs {
	p := &programs{known: map[string]spec.Program{}, running: map[int]string{}, wanted: map[string]bool{}, born: make(chan struct{}, 1)}
	for _, program := range list {
		p.known[program.Name] = program
	}
	return p
}

// want runs a program from now on: reap runs it again whenever it ends.
func (p *programs) want(name string) {
	if _, ok := p.known[name]; !ok {
		fmt.Fprintf(os.Stderr, "keeper: no such program: %q\n", name)
		return
	}
	p.mu.Lock()
	p.wanted[name] = true
	p.mu.Unlock()
	p.start(name)
}

// stop kills a program, which is not run again until it is wanted.
func (p *programs) stop(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wanted, name)
	for pid, is := range p.running {
		if is == name {
			_ = syscall.Kill(pid, syscall.SIGKILL) // reap may be about to bury it
		}
	}
}

// start runs a program that is wanted and does not run.
func (p *programs) start(name string) {
	// Held until the number is noted, so that reap cannot bury a process that
	// it does not know yet.
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, is := range p.running {
		if is == name {
			return
		}
	}
	if !p.wanted[name] {
		return
	}
	program := p.known[name]
	pid, err := launch(program)
	if err != nil {
		fmt.Fprintf(os.Stderr, "keeper: starting %s: %v\n", name, err)
		time.AfterFunc(pause, func() { p.start(name) })
		return
	}
	p.running[pid] = name
	select {
	case p.born <- struct{}{}:
	default:
	}
}

func launch(program spec.Program) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	log, err := os.OpenFile(program.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	fmt.Fprintf(log, "=== keeper: starting %s at %s\n", program.File, time.Now().Format(time.RFC3339Nano))
	return syscall.ForkExec(program.File, append([]string{program.File}, program.Args...), &syscall.ProcAttr{
		Dir:   "/",
		Env:   program.Env,
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// reap never returns. It buries programs, and orphans such as the shims that
// containerd leaves to the machine's first process.
func (p *programs) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.ECHILD) {
			<-p.born
			continue
		}
		if err != nil {
			continue
		}
		p.mu.Lock()
		name, ours := p.running[pid]
		delete(p.running, pid)
		p.mu.Unlock()
		if ours {
			fmt.Fprintf(os.Stderr, "keeper: %s ended (exit %d, signal %d)\n", name, status.ExitStatus(), status.Signal())
			time.AfterFunc(pause, func() { p.start(name) })
		}
	}
}

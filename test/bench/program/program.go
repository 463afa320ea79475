// Package program builds and runs the programs that a measurement is about:
// pinned to CPUs, with their CPU time and memory read from outside, and ended
// with whoever started them.
package program

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Spec says how a program runs.
type Spec struct {
	Args []string
	Env  []string // on top of our own
	Dir  string
	Log  string // where its output goes
	CPUs string // as taskset(1) lists them; "" is all
	// Namespace is the network namespace that it runs in; "" is ours.
	Namespace string
}

// niceness of what is measured, where we may set it: on a machine that does
// something else besides, the figure shall be the program's own.
const niceness = "-15"

// argv is the command line that does what the spec says. Each wrapper executes
// the next, so that the process started is the program itself.
func (s Spec) argv() []string {
	var argv []string
	if s.Namespace != "" {
		argv = append(argv, "ip", "netns", "exec", s.Namespace)
	}
	if os.Getuid() == 0 {
		argv = append(argv, "nice", "-n", niceness)
	}
	if s.CPUs != "" {
		argv = append(argv, "taskset", "-c", s.CPUs)
	}
	return append(argv, s.Args...)
}

// Command is the spec as a command that has not started, its output not set.
func (s Spec) Command() *exec.Cmd {
	argv := s.argv()
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec // programs under test, from our own lists
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Dir = s.Dir
	// A session of its own, so that what it starts ends with it and its niceness
	// counts; and it ends with us, however we end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// begin starts a command of ours. Where the kernel groups processes by session
// for scheduling, niceness counts within the session only and the session has
// one of its own.
func begin(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	// Not there on every kernel, and only root's to set.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", cmd.Process.Pid), []byte(niceness), 0)
	return nil
}

// Run runs a program to its end and returns what it printed.
func Run(s Spec) ([]byte, error) {
	cmd := s.Command()
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := begin(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", s.Args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out.Bytes(), nil
}

// Process is a program that runs.
type Process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	err    error // once exited
}

// Start runs a program.
func Start(s Spec) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(s.Log), 0o755); err != nil { //nolint:gosec // some servers drop root
		return nil, err
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // the measurement's own folder
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := s.Command()
	cmd.Stdout, cmd.Stderr = log, log
	if err := begin(cmd); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Args[0], err)
	}
	p := &Process{cmd: cmd, log: s.Log, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// PID of the program.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the program has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err says how a program ended that should not have, with the end of its output.
func (p *Process) Err() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended (%w): %s", p.cmd.Args[len(p.cmd.Args)-1], errors.Join(errEnded, p.err), Tail(p.log, 1500))
	default:
		return nil
	}
}

var errEnded = errors.New("it should run on")

// Stop ends the program and what it started, and waits for it. Programs that
// save something at the end have a while for it.
func (p *Process) Stop() {
	_ = syscall.Kill(-p.PID(), syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
	}
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // what it left behind, too
	<-p.exited
}

// Kill ends the program with no time for last words.
func (p *Process) Kill() {
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	<-p.exited
}

// Tail is the end of a file, on one line.
func Tail(path string, size int) string {
	b, err := os.ReadFile(path) //nolint:gosec // the measurement's own folder
	if err != nil {
		return err.Error()
	}
	if len(b) > size {
		b = b[len(b)-size:]
	}
	return strings.Join(strings.Fields(string(b)), " ")
}

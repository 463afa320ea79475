package standalone

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"firebreakdns.io/firebreak/controller/run"
)

// How often it is looked whether the state folder can be written to.
const (
	checkBad  = 2 * time.Second // while it cannot: runs wait for it
	checkGood = time.Minute     // while nothing else writes there
)

// checkSize is what is written to try it: about as much as a small run. A full
// disk often has room for an empty file.
const checkSize = 16 << 10

// noted takes in what came of writing to the state folder, and says so in the
// log when that changes: once, however many runs wait for it.
func (s *store) noted(err error) error {
	why := ""
	if err != nil {
		why = fmt.Sprintf("the state folder %s cannot be written: %s", s.dir, plainly(err))
		err = &notWritable{why}
	}
	s.mu.Lock()
	before := s.trouble
	s.trouble, s.checked = why, s.now()
	s.mu.Unlock()
	switch {
	case why != "" && before == "":
		s.log.Error("nothing is changed any more until this works", "error", why)
	case why == "" && before != "":
		s.log.Info("the state folder can be written again", "state", s.dir)
	}
	return err
}

// notWritable is a state folder that cannot be written to.
type notWritable struct{ why string }

func (n *notWritable) Error() string { return n.why }

// plainly is an error of a file without its path, which is a temporary one.
func plainly(err error) error {
	var at *fs.PathError
	var link *os.LinkError
	var call *os.SyscallError
	var number syscall.Errno
	switch {
	case errors.As(err, &number):
		return number
	case errors.As(err, &at):
		return at.Err
	case errors.As(err, &link):
		return link.Err
	case errors.As(err, &call):
		return call.Err
	}
	return err
}

// bad is why the state folder cannot be written to; "" as long as it can.
func (s *store) bad() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble
}

// check tries whether the state folder can be written to, and returns why not.
func (s *store) check() string {
	_ = s.noted(s.try()) // it is in s.trouble
	return s.bad()
}

func (s *store) try() error {
	f, err := os.CreateTemp(s.runs(), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err = f.Write(make([]byte, checkSize)); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// watch checks again when it is time to.
func (s *store) watch() {
	s.mu.Lock()
	wait := checkGood
	if s.trouble != "" {
		wait = checkBad
	}
	due := s.now().Sub(s.checked) >= wait
	s.mu.Unlock()
	if due {
		s.check()
	}
}

// cannotWrite is the refusal of a drill that passed its guards, and could not be
// written down after all.
func cannotWrite(checks []run.Check, err error) *refusal {
	no := run.Check{Reason: run.StateNotWritable, Message: err.Error()}
	out := make([]run.Check, 0, len(checks)+1)
	for _, c := range checks {
		if c.Reason != no.Reason {
			out = append(out, c)
		}
	}
	return &refusal{checks: append(out, no), first: no}
}

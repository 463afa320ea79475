package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"firebreakdns.io/firebreak/build/firebreak/client"
	"firebreakdns.io/firebreak/controller/run"
)

// Exit codes.
const (
	exitPassed  = 0 // the drill passed; for other commands: done
	exitError   = 1 // something went wrong
	exitUsage   = 2 // this is not how the command is used
	exitFailed  = 3 // the drill failed: it found something
	exitStopped = 4 // the drill was stopped
	exitRefused = 5 // the drill may not start
	// exitInterrupted is what shells make of Ctrl-C: 128 and the signal's number.
	exitInterrupted = 130
)

const exitHelp = `Exit codes:
  0  the drill passed (other commands: done)
  1  error
  2  wrong usage
  3  the drill failed: it found something
  4  the drill was stopped before its end
  5  the drill was refused: nothing was changed
  130  interrupted (Ctrl-C)`

// usageError is a command that was not used as it should be.
type usageError struct{ error }

func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// silent is an end that has been said already: only its code is left to give.
type silent struct{ code int }

func (s *silent) Error() string { return fmt.Sprintf("exit code %d", s.code) }

// code is the exit code of a command that ended with err.
func code(err error) int {
	var quiet *silent
	var wrong *usageError
	var refused *client.Refused
	var answer *client.Answer
	switch {
	case err == nil:
		return exitPassed
	case errors.As(err, &quiet):
		return quiet.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &wrong):
		return exitUsage
	case errors.As(err, &refused):
		return refusal(refused.Checks)
	case errors.As(err, &answer) && answer.Status == http.StatusBadRequest:
		return exitUsage // what was asked cannot be: a client that nobody knows, say
	}
	return exitError
}

// refusal is the exit code of a drill that may not start. Out of bounds is wrong
// usage, whoever finds it.
func refusal(checks []run.Check) int {
	if no := run.FirstRefusal(checks); no != nil && no.Reason == run.OutOfBounds {
		return exitUsage
	}
	return exitRefused
}

// notFound says where to look instead, in words of the command line: the API's
// own name its paths.
func (a *app) notFound(err error, format string, args ...any) error {
	var answer *client.Answer
	if errors.As(err, &answer) && answer.Status == http.StatusNotFound {
		return fmt.Errorf("%s; `%s drill list` shows those that were", fmt.Sprintf(format, args...), a.program)
	}
	return err
}

// outcome is how a command ends that shows a run: as the run did.
func outcome(o run.Outcome) error {
	switch o {
	case run.Failed:
		return &silent{exitFailed}
	case run.Stopped:
		return &silent{exitStopped}
	case run.Refusal:
		return &silent{exitRefused}
	}
	return nil
}

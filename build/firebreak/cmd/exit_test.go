package cmd

import (
	"errors"
	"os/exec"
	"strconv"
)

func exitCode(err error) (string, bool) {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		return "", false
	}
	return strconv.Itoa(e.ExitCode()), true
}

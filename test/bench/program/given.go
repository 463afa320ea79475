package program

import (
	"flag"
	"os/exec"
	"path/filepath"
)

// Given makes an option of a program that the caller names, and keeps its
// absolute path: programs are started in folders of their own.
func Given(flags *flag.FlagSet, to *string, name, usage string) {
	flags.Func(name, usage, func(path string) error {
		found, err := exec.LookPath(path)
		if err != nil {
			return err
		}
		*to, err = filepath.Abs(found)
		return err
	})
}

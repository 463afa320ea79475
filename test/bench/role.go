package main

import (
	"fmt"
	"os"
)

// roleVariable names the part that this program plays when it has started
// itself as one of the processes of a measurement.
const roleVariable = "FIREBREAK_BENCH_ROLE"

// roles are those parts; the arguments are the program's own.
var roles = map[string]func(args []string) error{
	"echo":      echo,
	"authority": authority,
	"stream":    stream,
}

// role plays the part that the environment names, if it does.
func role() (code int, is bool) {
	name := os.Getenv(roleVariable)
	if name == "" {
		return 0, false
	}
	part, ok := roles[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "bench: %s=%q: there is no such part\n", roleVariable, name)
		return 2, true
	}
	if err := part(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "bench %s: %v\n", name, err)
		return 1, true
	}
	return 0, true
}

// roleEnv has this program play a part.
func roleEnv(name string) string { return roleVariable + "=" + name }

// Command keeper is a machine of a test cluster.
//
//	keeper machine SPEC   runs the machine that the file SPEC describes
//	keeper inside SPEC    is its first process; only keeper itself starts it
//
// The outer process stays in the host's namespaces. Its standard input is a
// leash: when whoever holds the other end dies, so does the machine, and with
// it, since it is a process namespace, everything that ran there. Its mounts
// and links go with it: no namespace of a machine has a name that would keep
// it. What the kernel does not remove, the control groups, the outer process
// removes last.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"firebreakdns.io/firebreak/test/cluster/lab/spec"
)

func init() {
	// The kernel ends a child with the thread that made it (Pdeathsig), and
	// not with the process: keep to the main thread, which lives as long.
	runtime.LockOSThread()
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: keeper machine|inside SPEC")
	}
	content, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	var machine spec.Machine
	if err := json.Unmarshal(content, &machine); err != nil {
		return fmt.Errorf("%s: %w", args[1], err)
	}
	switch args[0] {
	case "machine":
		return outer(args[1], machine)
	case "inside":
		return inner(machine)
	}
	return fmt.Errorf("no such command: %s", args[0])
}

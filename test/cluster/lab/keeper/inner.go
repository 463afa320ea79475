package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"

	"firebreakdns.io/firebreak/test/cluster/lab/spec"
)

// The files that the outer process hands to the machine's first.
const (
	ordersFD  = 3
	answersFD = 4
)

// inner is the machine's first process: it makes the file tree and then runs
// programs until it is killed.
func inner(machine spec.Machine) error {
	syscall.CloseOnExec(ordersFD)
	syscall.CloseOnExec(answersFD)
	if err := syscall.Sethostname([]byte(machine.Hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := tree(machine); err != nil {
		return err
	}
	if err := sysctls(machine.Sysctls); err != nil {
		return err
	}
	programs := newPrograms(machine.Programs)
	go follow(programs)

	answers := os.NewFile(answersFD, "answers")
	if _, err := fmt.Fprintln(answers, spec.Ready); err != nil {
		return err
	}
	answers.Close()
	programs.reap()
	return nil
}

// follow starts and stops programs as the outer process says.
func follow(programs *programs) {
	orders := bufio.NewScanner(os.NewFile(ordersFD, "orders"))
	for orders.Scan() {
		verb, name, _ := strings.Cut(orders.Text(), " ")
		switch verb {
		case spec.Start:
			programs.want(name)
		case spec.Stop:
			programs.stop(name)
		default:
			fmt.Fprintf(os.Stderr, "keeper: not an order: %q\n", orders.Text())
		}
	}
}

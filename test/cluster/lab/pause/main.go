// Command pause is the first process of every pod: it holds the pod's
// namespaces until it is told to end.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// As process 1 of a shared process namespace it inherits orphans, which
	// the kernel reaps by itself when SIGCHLD is ignored.
	signal.Ignore(syscall.SIGCHLD)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}

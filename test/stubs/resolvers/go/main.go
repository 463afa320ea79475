// Command go looks a new name up with Go's own resolver every EVERY_MS
// milliseconds and prints, for each lookup,
//
//	START END NAME RESULT
//
// with times in microseconds since 1970 and a result that is "ok" or one word.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

func main() {
	suffix := os.Getenv("SUFFIX")
	every, err := strconv.Atoi(os.Getenv("EVERY_MS"))
	if err != nil || every < 1 || suffix == "" {
		fmt.Fprintln(os.Stderr, "set SUFFIX and EVERY_MS")
		os.Exit(2)
	}
	network := "ip"
	if os.Getenv("FAMILY") == "4" {
		network = "ip4"
	}
	tick := time.NewTicker(time.Duration(every) * time.Millisecond)
	for i := 0; ; i++ {
		go lookup(network, fmt.Sprintf("q%d.%s", i, suffix))
		<-tick.C
	}
}

func lookup(network, name string) {
	start := time.Now().UnixMicro()
	_, err := net.DefaultResolver.LookupIP(context.Background(), network, name)
	fmt.Printf("%d %d %s %s\n", start, time.Now().UnixMicro(), name, word(err))
}

func word(err error) string {
	var dns *net.DNSError
	switch {
	case err == nil:
		return "ok"
	case !errors.As(err, &dns):
		return "error"
	case dns.IsTimeout:
		return "timeout"
	case dns.IsNotFound:
		return "notfound"
	}
	return "servfail" // what Go makes of everything else
}

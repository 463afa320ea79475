// Command cmd is a DNS server that misbehaves as it is told (see package
// upstream), for tests that need one in a process or a network namespace of its
// own.
//
// It reads its script from a file, and new ones from its input: lines up to an
// empty one replace the script, "down" and "up" close and open its sockets, "?"
// prints what it was asked as a line of JSON. Every command is answered by a
// line. With the end of the input it ends, unless -stay is given.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"firebreakdns.io/firebreak/test/upstream"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "where, for UDP and TCP: `IP:PORT`")
	script := flag.String("script", "", "`file` with what to do (none: an honest server)")
	stay := flag.Bool("stay", false, "run on after the end of the input, until SIGTERM or SIGINT")
	flag.Parse()
	if err := run(*listen, *script, *stay); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run(listen, script string, stay bool) error {
	o := upstream.Options{Listen: listen}
	if script != "" {
		text, err := os.ReadFile(script)
		if err != nil {
			return err
		}
		o.Script = string(text)
	}
	s, err := upstream.Start(o)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println(s.Addr())
	obey(s)
	if stay {
		c := make(chan os.Signal, 1)
		signal.Notify(c, os.Interrupt, syscall.SIGTERM)
		<-c
	}
	return nil
}

func obey(s *upstream.Server) {
	in := bufio.NewScanner(os.Stdin)
	var rules []string
	for in.Scan() {
		switch line := strings.TrimSpace(in.Text()); line {
		case "?":
			out, _ := json.Marshal(s.Count())
			fmt.Println(string(out))
		case "down":
			s.Down()
			say(nil)
		case "up":
			say(s.Up())
		case "":
			say(s.Script(strings.Join(rules, "\n")))
			rules = nil
		default:
			rules = append(rules, line)
		}
	}
}

func say(err error) {
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println("ok")
}

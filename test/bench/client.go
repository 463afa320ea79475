package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"firebreakdns.io/firebreak/test/bench/program"
)

// freshPerRun is how far apart the fresh names of two runs begin: no run asks so many.
const freshPerRun = 1 << 22

// apply puts a load on a server and returns what the client says.
func apply(w *work, r *running, length time.Duration, run int) (load, error) {
	t := r.place.tools
	seconds := fmt.Sprint(length.Seconds())
	var args, env []string
	switch w.client {
	case udpClient:
		args = []string{t.load, "-p", fmt.Sprint(r.place.port), "-d", seconds, "-s", fmt.Sprint(w.sockets)}
		if w.rate > 0 {
			args = append(args, "-r", fmt.Sprint(w.rate))
		} else {
			args = append(args, "-w", fmt.Sprint(w.window))
		}
		if w.fresh {
			args = append(args, "-u", fmt.Sprint(freshPerRun), "-o", fmt.Sprint(run*freshPerRun), "-z", missZone)
		} else {
			args = append(args, "-n", t.names)
		}
	case streamClient:
		args = []string{
			t.self, "-addr", r.addr(), "-names", t.names, "-conns", fmt.Sprint(w.sockets), "-window", fmt.Sprint(w.window),
			"-length", length.String(), fmt.Sprintf("-tls=%t", w.secure),
		}
		env = []string{roleEnv("stream"), "GOMAXPROCS=1"}
	case dnsperfClient:
		args = []string{
			"dnsperf", "-s", "127.0.0.1", "-p", fmt.Sprint(r.place.port), "-d", t.names, "-l", seconds,
			"-c", fmt.Sprint(w.sockets), "-q", fmt.Sprint(w.window * w.sockets), "-T", "1",
		}
	}
	out, err := program.Run(program.Spec{Args: args, Env: env, CPUs: t.clientCPU(w.workers)})
	if err != nil {
		return load{}, err
	}
	if w.client == dnsperfClient {
		return parseDnsperf(string(out))
	}
	var l load
	if err := json.Unmarshal(out, &l); err != nil {
		return l, fmt.Errorf("%s: %w: %s", args[0], err, out)
	}
	return l, nil
}

// What dnsperf says in its last lines.
var (
	dnsperfSent      = regexp.MustCompile(`Queries sent:\s+(\d+)`)
	dnsperfCompleted = regexp.MustCompile(`Queries completed:\s+(\d+)`)
	dnsperfNoError   = regexp.MustCompile(`NOERROR (\d+)`)
	dnsperfSeconds   = regexp.MustCompile(`Run time \(s\):\s+([\d.]+)`)
)

func parseDnsperf(out string) (l load, err error) {
	get := func(re *regexp.Regexp) uint64 {
		m := re.FindStringSubmatch(out)
		if m == nil {
			err = fmt.Errorf("dnsperf says nothing like %s: %s", re, out)
			return 0
		}
		n, e := strconv.ParseUint(m[1], 10, 64)
		if e != nil {
			err = e
		}
		return n
	}
	l.Sent = get(dnsperfSent)
	completed := get(dnsperfCompleted)
	l.Answered = get(dnsperfNoError)
	l.Bad, l.Lost = completed-l.Answered, l.Sent-completed
	m := dnsperfSeconds.FindStringSubmatch(out)
	if err != nil || m == nil {
		return l, fmt.Errorf("dnsperf: %w: %s", err, out)
	}
	l.Seconds, err = strconv.ParseFloat(m[1], 64)
	return l, err
}

func haveDnsperf() bool {
	_, err := exec.LookPath("dnsperf")
	return err == nil
}

// waitTLS waits until a server completes a TLS handshake.
func waitTLS(p *program.Process, addr string, limit time.Duration) (time.Duration, error) {
	begin := time.Now()
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Second}, Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // our own server on loopback
	var last error
	for time.Since(begin) < limit {
		c, err := dialer.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return time.Since(begin), nil
		}
		last = err
		if err := p.Err(); err != nil {
			return 0, err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0, fmt.Errorf("%s: no TLS after %s: %w", addr, limit, last)
}

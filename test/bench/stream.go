package main

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"firebreakdns.io/firebreak/test/bench/stats"

	"github.com/miekg/dns"
)

// stream is the load client for connections, plain or TLS: each keeps a window
// of questions out and writes the next when one is answered, in any order. What
// is measured is the server's CPU time, of which it needs far more than this.
func stream(args []string) error {
	flags := flag.NewFlagSet("stream", flag.ContinueOnError)
	addr := flags.String("addr", "", "server")
	names := flags.String("names", "", "file of names")
	conns := flags.Int("conns", 16, "connections")
	window := flags.Int("window", 16, "questions out on each")
	length := flags.Duration("length", time.Second, "how long")
	secure := flags.Bool("tls", false, "DNS over TLS")
	if err := flags.Parse(args); err != nil {
		return err
	}
	queries, err := wireQueries(*names)
	if err != nil {
		return err
	}
	s := &streams{queries: queries, until: time.Now().Add(*length)}
	begin := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, *conns)
	for i := range *conns {
		wg.Go(func() { errs[i] = s.connection(*addr, *window, *secure, i*len(queries) / *conns) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l := load{
		Sent: s.sent.Load(), Answered: s.answered.Load(), Bad: s.bad.Load(),
		Lost: s.sent.Load() - s.answered.Load() - s.bad.Load(), Seconds: time.Since(begin).Seconds(),
	}
	if p, ok := stats.Percentile(s.took, 0.5); ok {
		l.P50 = micros(p)
	}
	if p, ok := stats.Percentile(s.took, 0.99); ok {
		l.P99 = micros(p)
	}
	return json.NewEncoder(os.Stdout).Encode(l)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// wireQueries are the questions for a file of names, each with its length before it.
func wireQueries(path string) ([][]byte, error) {
	names, err := readNames(path)
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for _, name := range names {
		b, err := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA).Pack()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)) //nolint:gosec // a question is small
	}
	return all, nil
}

type streams struct {
	queries             [][]byte
	until               time.Time
	sent, answered, bad atomic.Uint64
	mu                  sync.Mutex
	took                []time.Duration
}

// connection asks until the time is over, then waits a moment for what is out.
func (s *streams) connection(addr string, window int, secure bool, first int) error {
	c, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err != nil {
		return err
	}
	if secure {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // our own server on loopback; its name is not what is measured
	}
	defer c.Close()
	if err := c.SetDeadline(s.until.Add(time.Second)); err != nil {
		return err
	}
	// An ID is free again when it is answered: the window is the set of IDs.
	free := make(chan uint16, window)
	due := make([]time.Time, window)
	for id := range window {
		free <- uint16(id) //nolint:gosec // a window is small
	}
	wrote := make(chan error, 1)
	go func() { wrote <- s.write(c, free, due, first) }()
	var took []time.Duration
	buf := make([]byte, 65537)
	for s.unanswered(wrote, free, window) {
		if _, err := io.ReadFull(c, buf[:2]); err != nil {
			break // the deadline: what is out is lost
		}
		n := int(binary.BigEndian.Uint16(buf))
		if _, err := io.ReadFull(c, buf[:n]); err != nil {
			break
		}
		id := binary.BigEndian.Uint16(buf)
		if n < 12 || int(id) >= window || buf[2]&0x80 == 0 {
			return fmt.Errorf("%s: an answer that is none of ours", addr)
		}
		took = append(took, time.Since(due[id]))
		if buf[3]&15 != 0 || buf[6] == 0 && buf[7] == 0 {
			s.bad.Add(1)
		} else {
			s.answered.Add(1)
		}
		free <- id
	}
	s.mu.Lock()
	s.took = append(s.took, took...)
	s.mu.Unlock()
	return nil
}

// unanswered says whether there is still something to read: while questions are
// written always, then until all IDs are back.
func (s *streams) unanswered(wrote chan error, free chan uint16, window int) bool {
	select {
	case err := <-wrote:
		wrote <- err
		return len(free) < window
	default:
		return true
	}
}

func (s *streams) write(c net.Conn, free chan uint16, due []time.Time, next int) error {
	end := time.NewTimer(time.Until(s.until))
	defer end.Stop()
	var batch []byte
	for {
		batch = batch[:0]
		var id uint16
		select {
		case <-end.C:
			return nil
		case id = <-free:
		}
		for now := time.Now(); ; {
			q := s.queries[next%len(s.queries)]
			next++
			at := len(batch)
			batch = append(batch, q...)
			binary.BigEndian.PutUint16(batch[at+2:], id)
			due[id] = now
			s.sent.Add(1)
			var more bool
			select {
			case id, more = <-free:
			default:
			}
			if !more {
				break
			}
		}
		if _, err := c.Write(batch); err != nil {
			return err
		}
	}
}

// Command asker is a pod's lookups, at a rate, and a log of every one: what the
// cluster's tests count is what their clients have seen.
//
//	asker STREAM...
//
// A stream is SERVER,KIND,RATE,NAME: RATE questions a second for an address, over
// UDP, or where the server's address begins with tcp:// over TCP, each from a socket of
// its own, as stub resolvers ask. Nothing is asked twice:
// a lookup that has no answer within 5 s, the time of glibc's first try, is one.
// KIND is "held", for NAME with its %d replaced by 0 to 24 in turn, or "fresh", by
// three numbers as an address has them (1-2-3) that never come again: the name of a
// pod, which need not exist. A line of the log is
//
//	SENT TOOK SERVER KIND VERDICT TTL EDE NAME
//
// in microseconds (of Unix time, and elapsed), the answer's RCODE or why there is
// none, the TTL of its first record, and the code of its extended error or -1.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// patience is glibc's default timeout.
	patience = 5 * time.Second
	// heldNames is how many names of a kind "held" there are.
	heldNames = 25
	// flushEvery bounds what a killed pod's log lacks.
	flushEvery = 100 * time.Millisecond
)

// stream is one kind of questions to one server.
type stream struct {
	server, kind, name string
	every              time.Duration
}

func main() {
	var streams []stream
	for _, arg := range os.Args[1:] {
		s, err := parse(arg)
		if err != nil {
			log.Fatalf("asker: %q: %v", arg, err)
		}
		streams = append(streams, s)
	}
	if len(streams) == 0 {
		log.Fatal("asker: usage: asker SERVER,held|fresh,RATE,NAME...")
	}
	out := &lines{to: bufio.NewWriter(os.Stdout)}
	go out.flush()
	var wait sync.WaitGroup
	for _, s := range streams {
		wait.Go(func() { s.run(out) })
	}
	wait.Wait()
}

func parse(arg string) (stream, error) {
	words := strings.Split(arg, ",")
	if len(words) != 4 {
		return stream{}, errors.New("want SERVER,KIND,RATE,NAME")
	}
	s := stream{server: words[0], kind: words[1], name: dns.Fqdn(words[3])}
	if s.kind != "held" && s.kind != "fresh" {
		return s, errors.New("the kind is held or fresh")
	}
	if strings.Count(s.name, "%d") != 1 {
		return s, errors.New("the name has one %d")
	}
	rate, err := strconv.Atoi(words[2])
	if err != nil || rate < 1 || rate > 10000 {
		return s, errors.New("the rate is 1 to 10000 a second")
	}
	s.every = time.Second / time.Duration(rate)
	return s, nil
}

// run asks at the rate, whether or not there are answers.
func (s stream) run(out *lines) {
	// Not at the same time as other streams; and no name that an earlier pod used.
	n := rand.IntN(1 << 20)
	next := time.Now().Add(rand.N(s.every))
	for ; ; n++ {
		time.Sleep(time.Until(next))
		next = next.Add(s.every) // what a busy machine has made late is made up for
		number := strconv.Itoa(n % heldNames)
		if s.kind == "fresh" {
			number = fmt.Sprintf("%d-%d-%d", n>>16&0xff, n>>8&0xff, n&0xff)
		}
		go s.ask(strings.Replace(s.name, "%d", number, 1), out)
	}
}

// ask does one lookup.
func (s stream) ask(name string, out *lines) {
	q := new(dns.Msg).SetQuestion(name, dns.TypeA)
	q.SetEdns0(1232, false)
	began := time.Now()
	m, err := exchange(q, s.server)
	took := time.Since(began)
	verdict, ttl, ede := "none", uint32(0), -1
	var timeout net.Error
	switch {
	case err == nil:
		verdict = dns.RcodeToString[m.Rcode]
		if m.Rcode == dns.RcodeSuccess && len(m.Answer) == 0 {
			verdict = "EMPTY"
		}
		if len(m.Answer) > 0 {
			ttl = m.Answer[0].Header().Ttl
		}
		ede = extended(m)
	case errors.As(err, &timeout) && timeout.Timeout():
	default:
		verdict = "error:" + strings.ReplaceAll(err.Error(), " ", "_")
	}
	out.line("%d %d %s %s %s %d %d %s\n", began.UnixMicro(), took.Microseconds(), s.server, s.kind, verdict, ttl, ede, name)
}

// exchange asks and waits for an answer to that question.
func exchange(q *dns.Msg, server string) (*dns.Msg, error) {
	if addr, ok := strings.CutPrefix(server, "tcp://"); ok {
		c := &dns.Client{Net: "tcp", Timeout: patience}
		m, _, err := c.Exchange(q, addr)
		return m, err
	}
	packet, err := q.Pack()
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("udp", server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(packet); err != nil {
		return nil, err
	}
	buf := make([]byte, dns.DefaultMsgSize)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return nil, err
		}
		m := new(dns.Msg)
		if m.Unpack(buf[:n]) == nil && m.Id == q.Id && len(m.Question) == 1 && m.Question[0] == q.Question[0] {
			return m, nil
		}
	}
}

// extended is the code of an answer's extended error, or -1.
func extended(m *dns.Msg) int {
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				return int(e.InfoCode)
			}
		}
	}
	return -1
}

// lines is the log.
type lines struct {
	mu sync.Mutex
	to *bufio.Writer
}

func (l *lines) line(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.to, format, args...)
}

func (l *lines) flush() {
	for range time.Tick(flushEvery) {
		l.mu.Lock()
		if err := l.to.Flush(); err != nil {
			log.Fatal(err)
		}
		l.mu.Unlock()
	}
}

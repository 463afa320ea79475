package upstream

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// Script is a list of rules. The first that fits a query says what is done.
type Script struct{ rules []*rule }

// rule says what is done with some queries.
type rule struct {
	name  string // "": every one
	exact bool   // not those below it
	qtype uint16 // 0: every one
	over  string // "": every one

	every      uint64 // only each nth; 0: all
	loss       float64
	drop       bool
	closes     bool
	truncate   bool
	wrongID    bool
	wrongName  bool
	elsewhere  bool
	garbage    bool
	noQuestion bool
	spoof      bool
	change     bool
	rcode      int
	nodata     bool
	delay      [2]time.Duration
	ttl        uint32
	records    int
	addrs      []netip.Addr
	rrs        []dns.RR

	seen  atomic.Uint64
	limit *limit // nil: none
}

// limit is what a server of a bounded capacity does: serve one after the other,
// and drop what would wait longer than a second.
type limit struct {
	each time.Duration
	mu   sync.Mutex
	free time.Time
}

const longestQueue = time.Second

// wait is how long a query that comes now waits; false: it is dropped.
func (l *limit) wait(now time.Time) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free.Before(now) {
		l.free = now
	}
	wait := l.free.Sub(now)
	if wait > longestQueue {
		return 0, false
	}
	l.free = l.free.Add(l.each)
	return wait + l.each, true
}

// Parse reads a script. A line is a pattern and what to do; # begins a comment.
//
//   - every query
//     example.org           a name and all below it
//     =example.org          the name alone
//     */AAAA  *@tcp         of one type; over one transport (udp, tcp, tls)
//
// What to do is any of these words, in any order:
//
//	every N               do the rest only with each Nth; the others fall to the next rule
//	answer ADDRESS...     these addresses (to A or AAAA, as they fit)
//	rr TEXT               this record, to the end of the line
//	change                another address with every answer: 192.0.2.1, .2, ...
//	records N             N addresses
//	ttl SECONDS           of what is answered (30)
//	nodata                an empty answer
//	RCODE                 servfail, refused, nxdomain, formerr, notimp, ...
//	delay D[-D]           first wait this long, or as long as chance says
//	loss N%               no answer to so many of them
//	rate N                serve at most N a second, one after the other; what would wait longer than 1 s is dropped
//	drop                  no answer (over TCP and TLS: the connection stays)
//	close                 close the connection instead (UDP: no answer)
//	truncate              TC over UDP, without the records
//	wrongid wrongname     lie about the ID, the question
//	noquestion            answer without a question section
//	elsewhere             answer from another port (UDP)
//	garbage               random bytes after the header and the question
//	spoof                 send a false answer with a wrong ID first, then the right one
func Parse(text string) (*Script, error) {
	s := &Script{}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		r, err := parseRule(words)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		s.rules = append(s.rules, r)
	}
	return s, nil
}

func parseRule(words []string) (*rule, error) {
	r := &rule{ttl: 30}
	pattern := words[0]
	if name, over, ok := strings.Cut(pattern, "@"); ok {
		if over != "udp" && over != "tcp" && over != "tls" {
			return nil, fmt.Errorf("%q is no transport: use udp, tcp or tls", over)
		}
		pattern, r.over = name, over
	}
	if name, qtype, ok := strings.Cut(pattern, "/"); ok {
		if r.qtype = dns.StringToType[strings.ToUpper(qtype)]; r.qtype == 0 {
			return nil, fmt.Errorf("%q is no type of records", qtype)
		}
		pattern = name
	}
	if pattern != "*" {
		pattern, r.exact = strings.CutPrefix(pattern, "=")
		r.name = dns.CanonicalName(pattern)
	}
	p := &words
	*p = words[1:]
	for len(*p) > 0 {
		word := (*p)[0]
		*p = (*p)[1:]
		if err := r.word(word, p); err != nil {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
	}
	return r, nil
}

// word reads one word, and takes what belongs to it from rest.
func (r *rule) word(word string, rest *[]string) error {
	flags := map[string]*bool{
		"drop": &r.drop, "close": &r.closes, "truncate": &r.truncate, "wrongid": &r.wrongID, "wrongname": &r.wrongName,
		"elsewhere": &r.elsewhere, "garbage": &r.garbage, "noquestion": &r.noQuestion, "spoof": &r.spoof, "change": &r.change, "nodata": &r.nodata,
	}
	if flag := flags[word]; flag != nil {
		*flag = true
		return nil
	}
	if code, ok := dns.StringToRcode[strings.ToUpper(word)]; ok {
		r.rcode = code
		return nil
	}
	next := func() string {
		if len(*rest) == 0 {
			return ""
		}
		w := (*rest)[0]
		*rest = (*rest)[1:]
		return w
	}
	number := func(least int) (int, error) {
		n, err := strconv.Atoi(next())
		if err == nil && n < least {
			err = fmt.Errorf("%d is below %d", n, least)
		}
		return n, err
	}
	switch word {
	case "every":
		n, err := number(1)
		r.every = uint64(n)
		return err
	case "records":
		n, err := number(1)
		r.records = n
		return err
	case "ttl":
		n, err := number(0)
		r.ttl = uint32(n)
		return err
	case "rate":
		n, err := number(1)
		if err == nil {
			r.limit = &limit{each: time.Second / time.Duration(n)}
		}
		return err
	case "loss":
		n, err := strconv.ParseFloat(strings.TrimSuffix(next(), "%"), 64)
		r.loss = n / 100
		return err
	case "delay":
		from, to, ranged := strings.Cut(next(), "-")
		if !ranged {
			to = from
		}
		for i, d := range []string{from, to} {
			var err error
			if r.delay[i], err = time.ParseDuration(d); err != nil {
				return err
			}
		}
		return nil
	case "answer":
		for len(*rest) > 0 {
			a, err := netip.ParseAddr((*rest)[0])
			if err != nil {
				break
			}
			r.addrs = append(r.addrs, a)
			next()
		}
		if len(r.addrs) == 0 {
			return fmt.Errorf("wants addresses")
		}
		return nil
	case "rr":
		rr, err := dns.NewRR(strings.Join(*rest, " "))
		*rest = nil
		r.rrs = append(r.rrs, rr)
		return err
	}
	return fmt.Errorf("no such word")
}

// find is the rule for a query, or nil.
func (s *Script) find(q dns.Question, over string) *rule {
	name := dns.CanonicalName(q.Name)
	for _, r := range s.rules {
		switch {
		case r.over != "" && r.over != over:
		case r.qtype != 0 && r.qtype != q.Qtype:
		case r.name != "" && r.exact && r.name != name:
		case r.name != "" && !dns.IsSubDomain(r.name, name):
		case r.every != 0 && r.seen.Add(1)%r.every != 0:
		default:
			return r
		}
	}
	return nil
}

// Package lookups reads what the pods of test/cluster/asker have logged, and sums it
// up: what a test holds of a cluster's DNS is what its clients have seen.
package lookups

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Slowest is what the quickest of stub resolvers wait for.
const Slowest = time.Second

// Patience is after what time asker gives a lookup up, and glibc's stub asks again.
const Patience = 5 * time.Second

// Lookup is one of a pod's, as its log has it.
type Lookup struct {
	Node    string
	Sent    time.Time
	Took    time.Duration
	Server  string
	Kind    string
	Verdict string // an RCODE, none, or what the error was
	TTL     int
	EDE     int // -1: none
	Name    string
}

// Good says whether it was answered, and not with an error.
func (l Lookup) Good() bool { return l.Verdict == "NOERROR" }

// Slow says whether it was answered later than quick stub resolvers wait.
func (l Lookup) Slow() bool { return l.Good() && l.Took > Slowest }

// String is for a message.
func (l Lookup) String() string {
	return fmt.Sprintf("%s at %s on %s from %s: %s after %s (TTL %d, EDE %d)", l.Name, l.Sent.Format("15:04:05.000"), l.Node, l.Server, l.Verdict, l.Took, l.TTL, l.EDE)
}

// List are lookups.
type List []Lookup

// Read reads the log of a pod on a node.
func Read(log io.Reader, node string) (List, error) {
	var list List
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		l := Lookup{Node: node}
		var sent, took int64
		if _, err := fmt.Sscan(lines.Text(), &sent, &took, &l.Server, &l.Kind, &l.Verdict, &l.TTL, &l.EDE, &l.Name); err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		l.Sent, l.Took = time.UnixMicro(sent), time.Duration(took)*time.Microsecond
		list = append(list, l)
	}
	return list, lines.Err()
}

// Those are the lookups that fit.
func (list List) Those(fits func(Lookup) bool) (some List) {
	for _, l := range list {
		if fits(l) {
			some = append(some, l)
		}
	}
	return some
}

// Of are those to a server, of a kind or, with "", of any.
func (list List) Of(server, kind string) List {
	return list.Those(func(l Lookup) bool { return l.Server == server && (kind == "" || l.Kind == kind) })
}

// Between are those that were sent in a time.
func (list List) Between(from, to time.Time) List {
	return list.Those(func(l Lookup) bool { return !l.Sent.Before(from) && l.Sent.Before(to) })
}

// Lost are those that were not answered well.
func (list List) Lost() List { return list.Those(func(l Lookup) bool { return !l.Good() }) }

// First are the first few, for a message.
func (list List) First() string {
	var text strings.Builder
	for _, l := range list[:min(len(list), 5)] {
		fmt.Fprintf(&text, "\n\t%s", l)
	}
	return text.String()
}

// Sum is what came of lookups.
type Sum struct {
	All, Failed, None, Slow int
	P50, P99, Most          time.Duration
}

// Sum counts.
func (list List) Sum() (s Sum) {
	var took []time.Duration
	for _, l := range list {
		s.All++
		took = append(took, l.Took)
		switch {
		case l.Slow():
			s.Slow++
		case l.Verdict == "none":
			s.None++
		case !l.Good():
			s.Failed++
		}
	}
	if slices.Sort(took); len(took) > 0 {
		s.P50, s.P99, s.Most = took[len(took)/2], took[(len(took)*99)/100], took[len(took)-1]
	}
	return s
}

// String is one line.
func (s Sum) String() string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
	return fmt.Sprintf("%6d lookups, %4d lost (%d failed, %d without an answer in 5 s), %d slower than 1 s; P50 %s ms, P99 %s ms, at most %s ms",
		s.All, s.Failed+s.None, s.Failed, s.None, s.Slow, ms(s.P50), ms(s.P99), ms(s.Most))
}

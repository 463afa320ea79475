package wire

import (
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// Query is one query of a client and what became of it.
type Query struct {
	At       time.Time
	Asked    netip.Addr // whom the client asked
	Server   netip.Addr // who got it: another one, behind a Service
	Port     uint16     // the client's
	ID       uint16
	Name     string
	Type     uint16
	Answered time.Time // zero: never
	Rcode    int       // of the answer
}

// Served says whether the query got an answer that a client can use.
func (q Query) Served() bool { return !q.Answered.IsZero() && q.Rcode != dns.RcodeRefused }

// key is what an answer repeats of its query.
type key struct {
	client, server netip.AddrPort
	id             uint16
	name           string
	qtype          uint16
}

func (p Packet) key() key {
	if p.Answer {
		return key{p.To, p.From, p.ID, p.Name, p.Type}
	}
	return key{p.From, p.To, p.ID, p.Name, p.Type}
}

// Queries pairs a client's queries with their answers, in the order in which
// they were sent. An answer belongs to the last query before it that it fits: a
// stub sends the same packet again while the first one has none.
func Queries(packets []Packet, client netip.Addr) []Query {
	var out []Query
	open := map[key]int{}
	for _, p := range inOrder(packets) {
		switch {
		case !p.Answer && p.From.Addr() == client:
			open[p.key()] = len(out)
			out = append(out, Query{
				At: p.At, Asked: p.To.Addr(), Server: p.To.Addr(), Port: p.From.Port(), ID: p.ID, Name: p.Name, Type: p.Type,
			})
		case p.Answer && p.To.Addr() == client:
			if i, ok := open[p.key()]; ok && out[i].Answered.IsZero() {
				out[i].Answered, out[i].Rcode = p.At, p.Rcode
			}
		}
	}
	return out
}

// within is how long a packet can take from the client's side of the router to
// the server's.
const within = time.Second

// Located fills in who got each query that went to the address of a Service, from
// what arrived at the servers. It reports how many arrived nowhere.
func Located(queries []Query, service netip.Addr, client netip.Addr, arrived []Packet) (lost int) {
	type arrival struct {
		at     time.Time
		server netip.Addr
		taken  bool
	}
	type question struct {
		port, id, qtype uint16
		name            string
	}
	by := map[question][]*arrival{}
	for _, p := range inOrder(arrived) {
		if !p.Answer && p.From.Addr() == client {
			k := question{p.From.Port(), p.ID, p.Type, p.Name}
			by[k] = append(by[k], &arrival{at: p.At, server: p.To.Addr()})
		}
	}
	for i := range queries {
		q := &queries[i]
		if q.Asked != service {
			continue
		}
		list := by[question{q.Port, q.ID, q.Type, q.Name}]
		at := slices.IndexFunc(list, func(a *arrival) bool { return !a.taken && a.at.Sub(q.At).Abs() < within })
		if at < 0 {
			lost++
			continue
		}
		list[at].taken = true
		q.Server = list[at].server
	}
	return lost
}

func inOrder(packets []Packet) []Packet {
	packets = slices.Clone(packets)
	slices.SortStableFunc(packets, func(a, b Packet) int { return a.At.Compare(b.At) })
	return packets
}

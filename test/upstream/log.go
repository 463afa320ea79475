package upstream

import (
	"net/netip"
	"sync"
	"time"
)

// Query is one that was asked.
type Query struct {
	At   time.Time
	Name string
	Type uint16
	ID   uint16
	Over string // udp, tcp, tls
	From netip.AddrPort
}

// Count is what a server was asked.
type Count struct {
	Queries     uint64            `json:"queries"`
	Answers     uint64            `json:"answers"`
	Connections uint64            `json:"connections"` // over TCP and TLS
	Odd         uint64            `json:"odd"`         // what was no query
	Over        map[string]uint64 `json:"over"`        // queries by transport
}

// keepQueries is how many are remembered.
const keepQueries = 1 << 16

type log struct {
	mu      sync.Mutex
	total   Count
	queries []Query // the first keepQueries since Reset
}

func (l *log) add(q Query) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.Queries++
	if l.total.Over == nil {
		l.total.Over = make(map[string]uint64)
	}
	l.total.Over[q.Over]++
	if len(l.queries) < keepQueries {
		l.queries = append(l.queries, q)
	}
}

func (l *log) odd()        { l.mu.Lock(); l.total.Odd++; l.mu.Unlock() }
func (l *log) answered()   { l.mu.Lock(); l.total.Answers++; l.mu.Unlock() }
func (l *log) connection() { l.mu.Lock(); l.total.Connections++; l.mu.Unlock() }

func (l *log) count() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total.Answers
}

// Count is what it was asked since the start, or the last Reset.
func (s *Server) Count() Count {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	c := s.log.total
	c.Over = make(map[string]uint64, len(c.Over))
	for k, v := range s.log.total.Over {
		c.Over[k] = v
	}
	return c
}

// Queries are the first 65536 since the start, or the last Reset.
func (s *Server) Queries() []Query {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return append([]Query(nil), s.log.queries...)
}

// Reset forgets what was counted.
func (s *Server) Reset() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.total = Count{}
	s.log.queries = nil
}

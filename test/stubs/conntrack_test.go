//go:build linux

package stubs

import (
	"testing"

	"firebreakdns.io/firebreak/test/stubs/wire"
)

// retries are the copies of drilled questions after the first.
type retries struct {
	all        int
	samePort   int // from the port of the copy before
	sameServer int // to the server of the copy before
	// stray retries came from the same port and went to another server.
	stray int
}

// retriesOf looks at who got the copies of each drilled question. Behind a Service
// that is conntrack's choice: what comes from one port goes to one server.
func retriesOf(c *cell) retries {
	type question struct {
		name  string
		qtype uint16
	}
	var r retries
	last := map[question]wire.Query{}
	for _, q := range c.queries {
		k := question{q.Name, q.Type}
		if before, again := last[k]; again {
			r.all++
			if q.Port == before.Port {
				r.samePort++
				if q.Server != before.Server {
					r.stray++
				}
			}
			if q.Server == before.Server {
				r.sameServer++
			}
			last[k] = q
		} else if !q.Served() {
			last[k] = q
		}
	}
	return r
}

// checkConntrack holds the Service to what makes it hurt: a retry from the same
// port goes to the same dead server.
func (m *matrix) checkConntrack(t *testing.T) {
	for _, c := range m.cells {
		if !c.service() {
			continue
		}
		if r := retriesOf(c); r.stray > 0 {
			t.Errorf("%s: %d of %d retries from the same port went to another server: the Service is not as kube-proxy makes one", c.Name, r.stray, r.all)
		}
	}
}

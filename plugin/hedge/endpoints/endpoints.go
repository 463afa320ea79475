// Package endpoints finds the addresses of upstreams and follows them: host
// names, a resolv.conf, and the endpoints of a Kubernetes Service, behind a small
// interface of its own (Watcher).
//
// A Source says what it finds whenever that changes. When it cannot tell, it says
// why, and what was found last stays: an old list of servers is better than none,
// and hedge finds out by itself which of them are dead.
package endpoints

import (
	"context"
	"net/netip"
	"slices"
)

// Endpoint is a server's address.
type Endpoint struct {
	Addr netip.AddrPort
	// Tier orders them: of those that are well, the lowest is asked.
	Tier int
}

// Source finds endpoints.
type Source interface {
	// Run calls found with what it finds, sorted, whenever that changes, and with an
	// error when it cannot tell, until the context is done. Calls do not overlap.
	Run(ctx context.Context, found func([]Endpoint, error))
	// String names it for people, and apart from all others.
	String() string
}

// sortAll sorts and removes what is there twice; the lower tier stays.
func sortAll(list []Endpoint) []Endpoint {
	slices.SortFunc(list, func(a, b Endpoint) int {
		if c := a.Addr.Compare(b.Addr); c != 0 {
			return c
		}
		return a.Tier - b.Tier
	})
	return slices.CompactFunc(list, func(a, b Endpoint) bool { return a.Addr == b.Addr })
}

// changes passes on only what is different.
type changes struct {
	found func([]Endpoint, error)
	last  []Endpoint
	err   string
	began bool
}

func (c *changes) tell(list []Endpoint) {
	list = sortAll(list)
	if c.began && c.err == "" && slices.Equal(list, c.last) {
		return
	}
	c.began, c.last, c.err = true, list, ""
	c.found(list, nil)
}

func (c *changes) fail(err error) {
	if c.err == err.Error() {
		return
	}
	c.err = err.Error()
	c.found(nil, err)
}

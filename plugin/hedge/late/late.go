// Package late hands an answer that came too late for its client to whoever has
// a use for it: a cache. The upstream question goes on behind the client's
// deadline, and what it brings should not be lost.
//
// It is a package of its own so that a cache need not import hedge.
package late

import (
	"context"

	"github.com/miekg/dns"
)

type key struct{}

// With is a context whose question takes late answers. take is called at most
// once, from another goroutine, after the handler has answered and only if a good
// answer comes then. The message is take's own; its ID, question and EDNS are as
// the handler would have answered.
func With(ctx context.Context, take func(*dns.Msg)) context.Context {
	return context.WithValue(ctx, key{}, take)
}

// Of is what takes a late answer, or nil.
func Of(ctx context.Context) func(*dns.Msg) {
	take, _ := ctx.Value(key{}).(func(*dns.Msg))
	return take
}

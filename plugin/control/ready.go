package control

import (
	"bytes"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
)

// readyState reads from the Corefile how readiness is asked, and in which server
// blocks: the ready plugin tells nobody. Where several have it, the last one
// decides for all how it is asked, as it does there.
func readyState(corefile caddy.Input) (state *protocol.ReadyState, blocks []int) {
	state = &protocol.ReadyState{}
	if corefile == nil {
		return state, nil
	}
	all, err := caddyfile.Parse(corefile.Path(), bytes.NewReader(corefile.Body()), caddy.ValidDirectives(corefile.ServerType()))
	if err != nil { // it was read a moment ago, so only an imported file can be the matter
		log.Warningf("Cannot tell how readiness is asked: %v", err)
		return state, nil
	}
	for n, block := range all {
		tokens, ok := block.Tokens["ready"]
		if !ok {
			continue
		}
		blocks = append(blocks, n)
		state.Configured, state.Continuous = true, false
		for i := 1; i < len(tokens); i++ {
			if tokens[i-1].Text == "monitor" {
				state.Continuous = tokens[i].Text == "continuously"
			}
		}
	}
	return state, blocks
}

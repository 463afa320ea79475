package control

import (
	"bytes"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
)

// readyState reads from the Corefile how readiness is asked: the ready plugin
// tells nobody. Where several blocks have it, the last one decides for all, as it
// does there.
func readyState(corefile caddy.Input) *protocol.ReadyState {
	state := &protocol.ReadyState{}
	if corefile == nil {
		return state
	}
	blocks, err := caddyfile.Parse(corefile.Path(), bytes.NewReader(corefile.Body()), caddy.ValidDirectives(corefile.ServerType()))
	if err != nil { // it was read a moment ago, so only an imported file can be the matter
		log.Warningf("Cannot tell how readiness is asked: %v", err)
		return state
	}
	for _, block := range blocks {
		tokens, ok := block.Tokens["ready"]
		if !ok {
			continue
		}
		state.Configured, state.Continuous = true, false
		for i := 1; i < len(tokens); i++ {
			if tokens[i-1].Text == "monitor" {
				state.Continuous = tokens[i].Text == "continuously"
			}
		}
	}
	return state
}

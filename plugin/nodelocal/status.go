//go:build linux

package nodelocal

import (
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// status is what the keeper has; nil: nothing.
func (k *keeper) status() *protocol.NodeLocalState {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running == nil || len(k.wants) == 0 {
		return nil
	}
	r := k.running
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		t = t.UTC()
		return &t
	}
	s := &protocol.NodeLocalState{
		Generation: r.member.ID(), Owner: r.owner,
		Link: r.link.Name(), LinkKind: r.link.Kind(), Port: r.options.port, Ready: true, Repairs: r.repairs.n,
		Addresses: []protocol.NodeLocalAddress{},
	}
	if r.owner {
		s.OwnerSince = at(r.ownerSince)
	}
	if r.options.rules == noRules {
		s.Rules = noRules
	} else if r.backend != nil {
		s.Rules, s.RulesAt = r.backend.Name(), r.backend.Where()
	}
	for _, p := range r.member.Peers() {
		s.Others = append(s.Others, protocol.NodeLocalGeneration{ID: p.ID, PID: p.PID, Newer: p.Newer})
	}
	for _, a := range k.wants[len(k.wants)-1].addrs {
		e := r.entries[a]
		said := protocol.NodeLocalAddress{Address: a.String(), Captured: e.captured, Reason: e.reason, Detail: e.detail}
		if e.captured {
			said.Since = at(e.since)
		}
		s.Ready = s.Ready && e.captured
		s.Addresses = append(s.Addresses, said)
	}
	if r.repairs.n > 0 {
		s.LastRepair = &protocol.NodeLocalRepair{At: r.repairs.at.UTC(), What: r.repairs.what}
	}
	return s
}

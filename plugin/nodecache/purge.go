package nodecache

import (
	"bytes"
	"net/http"

	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/miekg/dns"
)

// routes hangs the store on the control endpoint.
func routes(mux *http.ServeMux) {
	mux.HandleFunc("POST "+protocol.PathPurge, func(w http.ResponseWriter, r *http.Request) {
		var o protocol.PurgeOrder
		if !control.ReadJSON(w, r, &o) {
			return
		}
		p := current.Load()
		if p == nil {
			protocol.NewProblem(http.StatusNotFound, protocol.ReasonNotFound, "the nodecache plugin does not run: ask again after the start").Write(w)
			return
		}
		n, problem := p.purge(o)
		if problem != nil {
			problem.Write(w)
			return
		}
		log.Infof("Forgot %d answers for %s (subtree: %t), as asked", n, o.Name, o.Subtree)
		control.WriteJSON(w, http.StatusOK, protocol.Purged{Removed: n})
	})
}

// purge forgets a name or a subtree. What is on its way upstream meanwhile is
// answered and not kept.
func (p *process) purge(o protocol.PurgeOrder) (int, *protocol.Problem) {
	var room [maxName + 1]byte
	n, err := dns.PackDomainName(dns.Fqdn(o.Name), room[:], 0, nil, false)
	if _, is := dns.IsDomainName(o.Name); o.Name == "" || !is || err != nil {
		return 0, protocol.NewProblem(http.StatusBadRequest, protocol.ReasonBadRequest, "%q is no domain name: write one, or \".\" with subtree for all", o.Name).In("name")
	}
	name := room[:n]
	wire.Lower(name)
	return p.store.purge(func(e *entry) bool {
		if o.Subtree {
			return below(e.name(), name)
		}
		return bytes.Equal(e.name(), name)
	}), nil
}

// below says whether name is zone or under it, both in wire form.
func below(name, zone []byte) bool {
	for len(name) >= len(zone) {
		if bytes.Equal(name, zone) {
			return true
		}
		name = name[min(1+int(name[0]), len(name)):]
		if len(name) == 0 {
			return false
		}
	}
	return false
}
